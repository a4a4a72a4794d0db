"""The same evidence told in another way gets the same answer; less evidence gets less of it, never another culprit."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
from simulator import Scenario, simulate
from simulator.retelling import (
    Told,
    halved,
    tell,
    with_clock,
    with_files,
    with_groups,
    with_lines,
    with_ranks,
    without,
    wrapped,
    write_as_json,
)
from simulator.sampling import draw
from simulator.trial import ask, hold

from provstore.model.finding import Diagnosis

SHARED = Path(__file__).parents[2].parent / "shared"
CORPUS = SHARED / "corpus"
GLOO = (
    "healthy_ddp", "healthy_fsdp2", "healthy_tp", "healthy_pp", "healthy_3d", "many_ops", "ring_wrap",
    "hang_rank_stuck", "hang_skip_allreduce", "mismatch_type", "mismatch_size", "straggler", "nan", "order_deadlock",
)  # fmt: skip
CORPUS_CASES = (*(f"fr-gloo/{name}" for name in GLOO), "fr-nccl/gpu_error_1st", "fr-nccl/lock_gil_2nd")
SIMULATED = (
    ("ddp", "none", 1), ("fsdp", "skip", 2), ("hsdp", "wrong_size", 3), ("megatron", "stuck", 4),
    ("megatron", "no_send", 6), ("megatron_batched", "dead", 2), ("expert", "device", 5), ("context", "stuck", 1),
    ("hsdp", "order", 1), ("fsdp", "slow", 1),
)  # fmt: skip
CASES = (*CORPUS_CASES, *("/".join(map(str, case)) for case in SIMULATED))

Answer = frozenset[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Base:
    """A case as it is, and its answer."""

    told: Told
    diagnosis: Diagnosis


@cache
def _simulated(name: str) -> Scenario:
    layout, fault, seed = name.split("/")
    scenario = draw(layout, fault, int(seed))
    return replace(scenario, style=replace(scenario.style, prefix="nccl_trace_rank_"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Base]:
    """Return a function that gives a case by name; each is made and asked once."""

    @cache
    def make(name: str) -> Base:
        folder = tmp_path_factory.mktemp("case")
        if name in CORPUS_CASES:
            source = CORPUS / name
            if not source.is_dir():
                pytest.skip(f"{name}: the corpus is not beside the checkout")
            told = tell(source)
            told.write(folder)
        else:
            simulate(_simulated(name)).write(folder)
            told = tell(folder)
        return Base(told, ask([folder]))

    return make


def answer(diagnosis: Diagnosis, ranks: dict[int, int] | None = None) -> Answer:
    """Return what a diagnosis accuses, without names, sources and wording; ranks as ``ranks`` renames them."""

    def new(rank: int) -> int:
        return rank if ranks is None else ranks[rank]

    return frozenset(
        (
            finding.kind,
            finding.detail,
            finding.cause,
            tuple(sorted(new(culprit.rank) for culprit in finding.culprits)),
            tuple(sorted(map(new, finding.victims))),
            finding.op,
            finding.seq,
            finding.confidence,
        )
        for finding in diagnosis.findings
    )


def accused(diagnosis: Diagnosis) -> set[int]:
    return {culprit.rank for finding in diagnosis.findings for culprit in finding.culprits}


@pytest.mark.parametrize("case", CASES)
def test_ranks_with_other_numbers_change_only_the_numbers(
    case: str, base: Callable[[str], Base], tmp_path: Path
) -> None:
    known = base(case)
    ranks = known.told.ranks
    # a lost rank needs a new number too
    world = list(range(max(ranks) + 1))
    luck = random.Random(case)
    new = dict(zip(world, luck.sample(world, len(world))))
    with_ranks(known.told, new).write(tmp_path)
    told = ask([tmp_path])
    assert told.status == known.diagnosis.status
    assert answer(told) == answer(known.diagnosis, new)


@pytest.mark.parametrize("case", CASES)
def test_groups_and_files_with_other_names_change_only_the_names(
    case: str, base: Callable[[str], Base], tmp_path: Path
) -> None:
    known = base(case)
    # numbers stay numbers in their order: they link the status table of groups without calls
    renamed = with_groups(
        known.told,
        lambda name: str(int(name) * 10 + 7) if name.isdecimal() else f"x{name}",
        lambda desc: f"[b]{desc}[/b]",
    )
    files = with_files(renamed, lambda rank: f"trace of node{rank % 3} r{rank} part 99")
    files.write(tmp_path)
    told = ask([tmp_path], rank_regex=r"r(?P<rank>\d+) part")
    assert told.status == known.diagnosis.status
    assert answer(told) == answer(known.diagnosis)


@pytest.mark.parametrize("case", CASES)
def test_other_line_numbers_change_only_the_lines(case: str, base: Callable[[str], Base], tmp_path: Path) -> None:
    known = base(case)
    with_lines(known.told, 1000).write(tmp_path)
    told = ask([tmp_path])
    assert answer(told) == answer(known.diagnosis)
    before = sorted(finding.source.line for finding in known.diagnosis.findings if finding.source)
    assert sorted(finding.source.line for finding in told.findings if finding.source) == [
        line + 1000 for line in before
    ]


@pytest.mark.parametrize("case", CASES)
def test_a_lost_dump_of_a_healthy_rank_never_makes_a_culprit_of_another(
    case: str, base: Callable[[str], Base], tmp_path: Path
) -> None:
    known = base(case)
    guilty = accused(known.diagnosis)
    healthy = [rank for rank in known.told.ranks if rank not in guilty]
    if not healthy:
        pytest.skip("every rank with a dump is a culprit")
    lost = random.Random(case).choice(healthy)
    without(known.told, lost).write(tmp_path)
    told = ask([tmp_path])
    suspects = guilty | ({lost} if known.diagnosis.findings else set())
    assert accused(told) <= suspects
    assert all(finding.kind == "dead" for finding in told.findings if lost in {c.rank for c in finding.culprits})
    assert told.status != "healthy" or known.diagnosis.status == "healthy"


@pytest.mark.parametrize("offset_ns", [500_000_000, 3_600_000_000_000], ids=["500ms", "1h"])
@pytest.mark.parametrize("case", CASES)
def test_a_wrong_clock_makes_no_culprit(case: str, offset_ns: int, base: Callable[[str], Base], tmp_path: Path) -> None:
    known = base(case)
    rank = random.Random(case).choice(known.told.ranks)
    with_clock(known.told, rank, offset_ns).write(tmp_path)
    told = ask([tmp_path])
    assert accused(told) <= accused(known.diagnosis)
    hangs = {row for row in answer(known.diagnosis) if row[0] != "straggler"}
    assert {row for row in answer(told) if row[0] != "straggler"} == hangs


@pytest.mark.parametrize("case", CASES)
def test_two_overlapping_dumps_of_one_rank_are_one(case: str, base: Callable[[str], Base], tmp_path: Path) -> None:
    known = base(case)
    longest = max(known.told.dumps.values(), key=lambda document: len(document["entries"]))
    if len(longest["entries"]) < 6:
        pytest.skip("no dump is long enough to be told in two")
    whole = [name for name, document in known.told.dumps.items() if len(document["entries"]) >= 6]
    rank = random.Random(case).choice(whole).rpartition("_")[2]
    halved(known.told, int(rank)).write(tmp_path)
    told = ask([tmp_path])
    assert told.status == known.diagnosis.status
    assert answer(told) == answer(known.diagnosis)


@pytest.mark.parametrize("keep", [0.6, 0.25])
@pytest.mark.parametrize("case", CASES)
def test_a_ring_that_lost_its_oldest_entries_never_names_another(
    case: str, keep: float, base: Callable[[str], Base], tmp_path: Path
) -> None:
    known = base(case)
    wrapped(known.told, keep).write(tmp_path)
    assert accused(ask([tmp_path])) <= accused(known.diagnosis)


@pytest.mark.parametrize("case", CASES)
def test_json_alone_gives_the_findings_of_the_pickle_without_its_lines(
    case: str, base: Callable[[str], Base], tmp_path: Path
) -> None:
    known = base(case)
    write_as_json(known.told, tmp_path)
    told = ask([tmp_path])
    assert accused(told) <= accused(known.diagnosis)
    needs_lines = {"mismatch", "skipped_call", "extra_call", "order_deadlock"}
    if not needs_lines & {finding.kind for finding in known.diagnosis.findings}:
        assert answer(told) == answer(known.diagnosis)
    assert all(finding.source is None for finding in told.findings)


@pytest.mark.parametrize("case", CASES)
def test_a_json_twin_beside_a_pickle_changes_nothing(case: str, base: Callable[[str], Base], tmp_path: Path) -> None:
    known = base(case)
    known.told.write(tmp_path)
    (tmp_path / "json").mkdir(exist_ok=True)
    write_as_json(Told(known.told.dumps), tmp_path / "json")
    told = ask([tmp_path])
    assert told.status == known.diagnosis.status
    assert answer(told) == answer(known.diagnosis)


@pytest.mark.parametrize("case", CASES)
def test_the_order_in_which_files_are_named_changes_nothing(
    case: str, base: Callable[[str], Base], tmp_path: Path
) -> None:
    known = base(case)
    known.told.write(tmp_path)
    paths = [path for path in tmp_path.rglob("*") if path.is_file()]
    random.Random(case).shuffle(paths)
    told = ask(paths)
    assert told.status == known.diagnosis.status
    assert answer(told) == answer(known.diagnosis)


@pytest.mark.parametrize("case", ["/".join(map(str, case)) for case in SIMULATED if case[1] not in ("order", "slow")])
def test_more_sound_steps_before_a_fault_change_nothing_but_numbers(case: str) -> None:
    scenario = _simulated(case)
    longer = replace(
        scenario,
        size=replace(scenario.size, steps=scenario.size.steps + 2),
        faults=tuple(replace(fault, after_step=fault.after_step + 2) for fault in scenario.faults),
    )
    short, long = hold(scenario), hold(longer)
    assert short.outcome.truth.fault == long.outcome.truth.fault
    assert long.verdict.word == short.verdict.word
    assert accused(long.diagnosis) == accused(short.diagnosis)
