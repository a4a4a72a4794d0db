"""How a comparison of two runs is shown: what nobody could compare is not all that was compared."""

from provstore.analysis.divergence import Correlation, Coverage, Divergence, Event
from provstore.cli import diff as view
from tests.captures import RankCapture


def recorded(command, tmp_path, run, with_anchors):
    for rank in range(2):
        capture = RankCapture(tmp_path / run, rank, run=run)
        capture.begin(0)
        capture.call(0, values=None)
        if with_anchors:
            capture.lines.append(
                {"t": "anchor", "epoch": 0, "step": 0, "rng": "sha256:" + "a" * 64, "order": "sha256:" + "b" * 64,
                 "cursor": 1}
            )  # fmt: skip
        capture.end(0)
        capture.write()
    assert command("record", tmp_path / run).code == 0


def test_equal_anchors_of_calls_without_digests_are_not_told_beside_nothing_compared(command, tmp_path):
    for run in ("one", "two"):
        recorded(command, tmp_path, run, with_anchors=True)
    answer = command("diff", "one", "two", "--quiet")

    assert answer.code == 3
    said = answer.out.splitlines()
    assert said[0] == "calls: nothing could be compared"
    assert "two: all 2 anchors are equal" in said


def test_what_every_rank_saw_at_one_step_is_told_once():
    near = [Correlation(Event("two", "escalation non-finite", scope), 0, None) for scope in ("run", "group:0", "run")]
    found = Divergence("one", "two", None, {}, None, None, Coverage(), {}, correlations=tuple(near))

    assert [line.text for line in view._details(found, 100)] == [
        "  near it, +0 steps: escalation non-finite, run, of two",
        "  near it, +0 steps: escalation non-finite, group:0, of two",
    ]


def test_runs_with_neither_digests_nor_anchors_say_that_nothing_could_be_compared(command, tmp_path):
    for run in ("one", "two"):
        recorded(command, tmp_path, run, with_anchors=False)

    assert command("diff", "one", "two", "--quiet").out.splitlines()[0] == "nothing could be compared"
