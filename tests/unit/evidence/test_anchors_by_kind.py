"""Anchors of two runs, each kind judged by itself: the cause of a step comes before what follows from it."""

from __future__ import annotations

from provstore.evidence.replay import AnchorComparison, compare_anchors

RANKS, STEPS = 3, 5


def anchors(**other: tuple[int, tuple[int, ...]]) -> list[dict[str, object]]:
    """Anchors of all ranks and steps; ``other`` maps a name to (first step, ranks) that differ from then on."""
    found = []
    for rank in range(RANKS):
        for step in range(STEPS):
            row: dict[str, object] = {"epoch": 0, "step": step, "rank": rank, "cursor": step + 1}
            for name in ("rng", "order", "params"):
                since, ranks = other.get(name, (STEPS, ()))
                row[name] = f"{name}{step}{'x' if step >= since and rank in ranks else ''}"
            found.append(row)
    return found


def batches(since: int = STEPS, ranks: tuple[int, ...] = (), until: int = STEPS) -> list[dict[str, object]]:
    return [
        {"epoch": 0, "step": step, "rank": rank, "batch": step,
         "ids_digest": f"{rank} {step}{'x' if since <= step < until and rank in ranks else ''}"}
        for rank in range(RANKS) for step in range(STEPS)
    ]  # fmt: skip


def kinds(found: AnchorComparison) -> list[tuple[str, int | None, tuple[int, ...]]]:
    return [(one.kind, one.step, one.ranks) for one in found.kinds if one.different]


def test_other_samples_of_one_rank_come_before_the_parameters_of_all_that_follow_from_them() -> None:
    found = compare_anchors(anchors(), anchors(params=(2, (0, 1, 2))), "b", (batches(), batches(2, (1,), 3)))
    assert kinds(found) == [("data", 2, (1,)), ("params", 2, (0, 1, 2))]
    assert found.first is not None
    assert (found.first.step, found.first.rank, found.first.names) == (2, 1, ("data", "params"))


def test_random_states_that_differ_from_the_start_hide_nothing_else() -> None:
    every = tuple(range(RANKS))
    alone = compare_anchors(anchors(), anchors(rng=(0, every)), "b", (batches(), batches()))
    assert kinds(alone) == [("rng", 0, every)]
    equal = {one.kind: one.compared for one in alone.kinds if not one.different}
    assert {equal[kind] for kind in ("data", "order", "params", "cursor")} == {RANKS * STEPS}
    both = compare_anchors(anchors(), anchors(rng=(0, every), params=(3, (2,))), "b", (batches(), batches()))
    assert kinds(both) == [("rng", 0, every), ("params", 3, (2,))]


def test_of_one_step_random_states_come_before_calls_and_calls_before_parameters() -> None:
    changed = anchors(params=(1, (0,)), order=(1, (1,)), rng=(1, (2,)))
    found = compare_anchors(anchors(), changed, "b")
    assert kinds(found) == [("rng", 1, (2,)), ("order", 1, (1,)), ("params", 1, (0,))]
    assert (found.first.rank, found.first.names) == (2, ("rng",))


def test_an_earlier_step_comes_first_whatever_the_kind() -> None:
    found = compare_anchors(anchors(), anchors(params=(1, (0,))), "b", (batches(), batches(2, (1,))))
    assert kinds(found) == [("params", 1, (0,)), ("data", 2, (1,))]


def test_batches_of_a_step_that_has_no_anchor_are_compared_too() -> None:
    cut = [[row for row in rows if row["step"] < 4] for rows in (anchors(), anchors())]
    found = compare_anchors(*cut, "b", (batches(), batches(4, (2,))))
    assert kinds(found) == [("data", 4, (2,))]


def test_the_steps_that_were_compared_are_counted_once_for_all_ranks() -> None:
    found = compare_anchors(anchors(), anchors(), "b")
    assert (found.is_equal, found.compared, found.steps) == (True, RANKS * STEPS, STEPS)


def without_steps(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """As batches are written whose step ends long after."""
    return [{name: value for name, value in row.items() if name != "step"} for row in rows]


def test_batches_that_do_not_name_their_step_are_of_the_step_by_whose_end_they_had_been_noted() -> None:
    other = batches(3, (1,), 4)
    for data in ((batches(), without_steps(other)), (without_steps(batches()), without_steps(other))):
        found = compare_anchors(anchors(), anchors(), "b", data)
        assert kinds(found) == [("data", 3, (1,))]
        assert {one.kind: one.compared for one in found.kinds}["data"] == RANKS * STEPS


def test_several_batches_of_one_step_that_they_do_not_name_are_compared_together() -> None:
    counted = [{**row, "cursor": 2 * row["step"] + 2} for row in anchors()]
    data = [{"epoch": 0, "rank": 0, "batch": at, "ids_digest": str(at)} for at in range(2 * STEPS)]
    changed = [{**row, "ids_digest": "x"} if row["batch"] == 5 else row for row in data]
    assert kinds(compare_anchors(counted, counted, "b", (data, changed))) == [("data", 2, (0,))]


def test_nothing_is_said_of_batches_where_steps_lack_anchors_or_a_restart_counted_anew() -> None:
    data = without_steps(batches()), without_steps(batches(2, (1,), 3))
    gap = [row for row in anchors() if row["step"] != 1]
    anew = [{**row, "cursor": 1 if row["step"] == 3 else row["cursor"]} for row in anchors()]
    none = [{**row, "cursor": None} for row in anchors()]
    for stored in (gap, anew, none, []):
        assert "data" not in {one.kind for one in compare_anchors(stored, stored, "b", data).kinds}


def test_batches_after_the_last_step_are_of_none() -> None:
    data = without_steps(batches()), without_steps(batches(4, (1,)))
    cut = [row for row in anchors() if row["step"] < 4]
    found = compare_anchors(cut, cut, "b", data)
    assert kinds(found) == []
    assert {one.kind: one.compared for one in found.kinds}["data"] == RANKS * 4
