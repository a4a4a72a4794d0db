"""A restore plan as a script to read: what a re-run has to do, in its order. Nothing of it is run here."""

from __future__ import annotations

from collections.abc import Iterator

from provstore.evidence.replay import plan as plans
from provstore.evidence.replay.epoch import PRESENT
from provstore.evidence.replay.plan import RestorePlan


def script_of(plan: RestorePlan) -> str:
    """Return the script; every text that comes from evidence stands in it as an ASCII literal."""
    return "\n".join(_lines(plan)) + "\n"


def rng_name(rank: int | str) -> str:
    """Return the name of the file with the random states of a rank."""
    return f"rng-rank{rank}.json"


def _lines(plan: RestorePlan) -> Iterator[str]:
    yield '"""How to run an epoch again: to be read, completed and put into the training program; it starts nothing."""'
    yield ""
    yield f"RUN, ATTEMPT, EPOCH = {plan.run!a}, {plan.attempt}, {plan.epoch}"
    yield f"VERDICT = {plan.verdict!a}"
    yield from (f"# why no better: {reason!a}" for reason in plan.reasons)
    if plan.is_fork:
        yield "# This is a fork: it leaves out batches that the run did not leave out."
    yield from _restoring(plan)
    yield from _checking(plan)


def _restoring(plan: RestorePlan) -> Iterator[str]:
    environment, checkpoint = plan.item(plans.ENVIRONMENT), plan.item(plans.CHECKPOINT)
    yield ""
    yield "# 1. The environment, before torch is loaded or used."
    yield f"ENVIRONMENT = {environment.detail!a}"
    yield from (f"# {name!a}: {value!a}" for name, value in environment.parts.items())
    yield ""
    yield "# 2. The checkpoint, then the steps from it to the epoch."
    yield f"CHECKPOINT, STATE_DIGEST = {checkpoint.source!a}, {checkpoint.digest!a}"
    yield f"CHECKPOINT_STATE = {checkpoint.state!a}"
    yield f"CATCH_UP_STEPS = {plan.catch_up_steps!r}"
    yield ""
    yield "# 3. The states of the random number generators, last before the first step."
    yield "#    from provstore.capture.recording.rng_states import restore_rng"
    yield f'#    restore_rng(Path(f"{rng_name("{rank}")}").read_bytes(), torch)'
    yield f"RNG_STATE = {plan.item(plans.RNG).state!a}"


def _checking(plan: RestorePlan) -> Iterator[str]:
    yield ""
    yield "# 4. The batches of the epoch in their order, without these."
    yield f"SKIP = {[(one.epoch, one.batch) for one in plan.skips]!r}"
    yield ""
    yield "# 5. Recorded again, as another run; then its anchors are compared with the stored ones:"
    yield f"#    provstore replay --run RUN --epoch {plan.epoch} --against RUN2"
    if plan.item(plans.ANCHORS).state != PRESENT:
        yield "#    There is no anchor of some rank, so that a difference there would not be seen."
