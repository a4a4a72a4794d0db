"""Whatever makes a finding about recorded values less than certain stands among its caveats."""

from __future__ import annotations

from provstore.analysis.suspicion import ONLY_LOSSES, SIZE_ONLY, suspicious
from tests.unit.analysis.test_suspicion import run_of, sizes


def test_calls_whose_output_is_not_known_to_be_finite_are_counted_and_the_first_is_named():
    actions = run_of(r2s1={"finite_out": None}, r2s2={"finite_out": None}, r2s4={"finite_in": False})
    (found,) = [one for one in suspicious(actions).suspicious if one.finding.code == "nan-origin"]

    assert found.finding.confidence == "probable"
    (caveat,) = found.finding.caveats
    assert caveat == (
        "of 3 calls that it had before, what 2 gave it is not known to be finite: all_reduce #1 in group pg@0-3 at "
        "step 1 and 1 more; it is taken to have been sound until all_reduce #3 in group pg@0-3 at step 3, because what "
        "it put into that was finite"
    )
    assert found.finding.summary.endswith("; all it is known to have had before was finite.")


def test_an_origin_after_calls_that_all_gave_finite_values_is_certain_and_has_no_caveat():
    (found,) = [one for one in suspicious(run_of(r2s4={"finite_in": False})).suspicious if one.action.rank == 2]

    assert (found.finding.confidence, found.finding.caveats) == ("certain", ())


def test_an_origin_that_only_losses_tell_says_so():
    silent = {"finite_in": None, "finite_out": None}
    actions = run_of(**{f"r{rank}s{seq}": silent for rank in range(4) for seq in range(1, 6)})
    losses = {rank: {2: float("nan") if rank == 1 else 0.5} for rank in range(4)}
    (found,) = suspicious(actions, losses=losses).suspicious

    assert (found.finding.confidence, found.finding.caveats) == ("probable", (ONLY_LOSSES,))


def test_an_outlier_says_that_only_sizes_were_compared():
    found = suspicious(run_of(), sizes(r2s3=1e9)).suspicious

    assert [(one.finding.confidence, one.finding.caveats) for one in found] == [("probable", (SIZE_ONLY,))]
