"""What a dump says about itself: eventless, unfinished calls only, wrapped, and the status of its groups."""

from __future__ import annotations

import pytest

from provstore.model.dump import ABSENT
from provstore.sources.flight_recorder import ReadOptions, read_dumps
from tests.fr_files import Entry, ring, table, write_groups, write_pickle, write_sidecar

RETIRED = {"state": "scheduled", "retired": True, "completed_ns": None}
UNSEEN = {"state": "scheduled", "retired": False, "completed_ns": None}


def read(tmp_path, entries, **more):
    path = write_pickle(tmp_path / "rank_0", table("2.10", entries, **more))
    (dump,) = read_dumps([path]).dumps
    return dump


def counters(enqueued, completed):
    return {
        "last_enqueued_collective": enqueued,
        "last_started_collective": -1,
        "last_completed_collective": completed,
    }


def test_gloo_is_eventless_even_when_nothing_has_retired(tmp_path):
    assert read(tmp_path, ring(2, name="gloo:all_reduce", **UNSEEN)).eventless is True


def test_a_recorder_that_retires_without_ever_completing_is_eventless(tmp_path):
    assert read(tmp_path, ring(5, name="fake:all_reduce", **RETIRED)).eventless is True


def test_one_call_that_timed_out_does_not_make_nccl_eventless(tmp_path):
    entries = [Entry(**RETIRED), *ring(3, **UNSEEN)[1:]]
    assert read(tmp_path, entries).eventless is False


def test_a_recorder_that_reports_completions_is_not_eventless(tmp_path):
    assert read(tmp_path, ring(3)).eventless is False


def test_a_ring_whose_first_record_is_not_the_first_ever_has_wrapped(tmp_path):
    entries = [Entry(seq=at, record_id=at + 40, op_id=at) for at in range(1, 6)]
    dump = read(tmp_path, entries)

    assert dump.wrapped is True
    assert dump.active_only is False


def test_a_complete_ring_has_not_wrapped(tmp_path):
    assert read(tmp_path, ring(5)).wrapped is False


def test_gaps_between_unfinished_calls_mean_that_only_those_are_recorded(tmp_path):
    entries = [Entry(seq=at, record_id=at, op_id=at, **UNSEEN) for at in (90, 93, 97)]
    dump = read(tmp_path, entries)

    assert dump.active_only is True
    assert dump.wrapped is False


def test_an_empty_dump_with_a_history_recorded_unfinished_calls_only(tmp_path):
    assert read(tmp_path, [], pg_status={"0": counters(12, 12)}).active_only is True


def test_an_empty_dump_without_a_history_is_just_empty(tmp_path):
    dump = read(tmp_path, [], pg_status={"0": counters(-1, -1)})

    assert dump.active_only is False
    assert dump.wrapped is False


def test_the_caller_can_say_whether_only_unfinished_calls_are_recorded(tmp_path):
    path = write_pickle(tmp_path / "rank_0", table("2.10", ring(3)))
    (dump,) = read_dumps([path], ReadOptions(active_only=True)).dumps

    assert dump.active_only is True


def test_one_rank_with_gaps_tells_it_for_the_ranks_without(tmp_path):
    write_pickle(tmp_path / "rank_0", table("2.10", [Entry(record_id=at, seq=at, **UNSEEN) for at in (5, 9)]))
    write_pickle(tmp_path / "rank_1", table("2.10", [Entry(record_id=at, seq=at, **UNSEEN) for at in (0, 1)]))

    assert [dump.active_only for dump in read_dumps([tmp_path]).dumps] == [True, True]


def test_status_is_linked_by_the_pg_id_of_an_entry(tmp_path):
    groups = {"0": ("default_pg", (0, 1)), "40": ("tp", (0, 1))}
    entries = [Entry(), Entry(group="40", pg_id=3, record_id=1)]
    path = write_pickle(
        tmp_path / "rank_0", table("2.10", entries, groups, pg_status={0: counters(8, 7), "3": counters(5, 5)})
    )
    (dump,) = read_dumps([path]).dumps

    assert {group.name: (group.last_enqueued, group.last_completed) for group in dump.groups} == {
        "0": (8, 7),
        "40": (5, 5),
    }


def test_status_of_a_group_without_entries_is_linked_in_the_order_of_creation(tmp_path):
    groups = {"9": ("tp", (0, 1)), "0": ("default_pg", (0, 1)), "11": ("dp", (0, 1))}
    status = {"0": counters(8, 7), "1": counters(5, 5), "2": counters(3, 3)}
    path = write_pickle(tmp_path / "rank_0", table("2.10", [Entry()], groups, pg_status=status))
    (dump,) = read_dumps([path]).dumps

    assert {group.name: group.last_enqueued for group in dump.groups} == {"0": 8, "9": 5, "11": 3}
    assert {group.name: group.pg_id for group in dump.groups} == {"0": 0, "9": 1, "11": 2}


@pytest.mark.parametrize("status", [{"0": counters(8, 7)}, {str(at): counters(at, at) for at in range(5)}])
def test_status_stays_unlinked_when_the_tables_do_not_match(tmp_path, status):
    groups = {"9": ("tp", (0, 1)), "0": ("default_pg", (0, 1)), "11": ("dp", (0, 1))}
    path = write_pickle(tmp_path / "rank_0", table("2.10", [Entry()], groups, pg_status=status))
    (dump,) = read_dumps([path]).dumps

    assert [group.last_enqueued for group in dump.groups if group.name != "0"] == [ABSENT, ABSENT]


def gloo(entries, ranks_text):
    value = table("2.10", entries)
    value["pg_config"] = {"": {"name": "", "desc": "", "ranks": ranks_text}}
    return value


def test_gloos_nameless_group_is_the_default_group_when_the_file_knows_no_other(tmp_path):
    path = write_pickle(tmp_path / "rank_0", gloo(ring(2, name="gloo:barrier"), "[0, 1, 2]"))
    (dump,) = read_dumps([path]).dumps

    assert [(group.name, group.ranks, group.declared_by) for group in dump.groups] == [("0", (0, 1, 2), "pg_config")]


@pytest.mark.parametrize(
    ("entries", "ranks"),
    [
        (ring(2, name="gloo:barrier"), "[]"),
        ([Entry(name="gloo:a"), Entry(name="gloo:a", group="1", pg_id=1, record_id=1)], "[0, 1, 2]"),
    ],
)
def test_gloos_nameless_group_is_not_trusted_otherwise(tmp_path, entries, ranks):
    path = write_pickle(tmp_path / "rank_0", gloo(entries, ranks))
    (dump,) = read_dumps([path]).dumps

    assert {group.ranks for group in dump.groups} == {None}
    assert {group.declared_by for group in dump.groups} == {"nothing"}


def test_a_sidecar_completes_the_groups(tmp_path):
    write_pickle(tmp_path / "rank_0", gloo(ring(1, name="gloo:barrier"), "[]"))
    write_groups(tmp_path / "json" / "pgs_0.json", {"0": ("default_pg", (0, 1)), "3": ("pair", (0, 1))})
    (dump,) = read_dumps([tmp_path]).dumps

    assert [(group.name, group.desc, group.ranks, group.declared_by) for group in dump.groups] == [
        ("0", "default_pg", (0, 1), "sidecar"),
        ("3", "pair", (0, 1), "sidecar"),
    ]
    assert dump.sidecar.rank == 0
    assert [group.name for group in dump.sidecar.groups] == ["0", "3"]


def test_a_sidecar_says_who_wrote_the_dump_and_when(tmp_path):
    write_pickle(tmp_path / "fr_gloo_rank_0", table("2.10", ring(1)))
    write_sidecar(
        tmp_path / "fr_meta_rank_0.json",
        0,
        {},
        run="night-7",
        attempt=2,
        host="node02",
        pid=41,
        world_size=8,
        local_rank=1,
        torch_version="2.15.0",
        reason="no step for 60 s",
        dumped_at_ns=1_760_000_100_000_000_000,
        monotonic_ns=5,
        device={"pci_bus_id": "0000:3B:00.0"},
        settings={"TORCH_FR_BUFFER_SIZE": "2000"},
        errors=["nccl: not built in"],
    )
    (dump,) = read_dumps([tmp_path]).dumps

    sidecar = dump.sidecar
    assert (sidecar.run, sidecar.attempt, sidecar.host, sidecar.pid) == ("night-7", 2, "node02", 41)
    assert (sidecar.world_size, sidecar.local_rank, sidecar.torch_version) == (8, 1, "2.15.0")
    assert sidecar.reason == "no step for 60 s"
    assert (sidecar.dumped_at_ns, sidecar.monotonic_ns) == (1_760_000_100_000_000_000, 5)
    assert sidecar.device == {"pci_bus_id": "0000:3B:00.0"}
    assert sidecar.settings == {"TORCH_FR_BUFFER_SIZE": "2000"}
    assert sidecar.errors == ("nccl: not built in",)
    assert sidecar.file == "fr_meta_rank_0.json"
    assert dump.host == "node02"


def test_two_recorders_of_one_rank_share_the_sidecar(tmp_path):
    for backend in ("gloo", "nccl"):
        write_pickle(tmp_path / f"fr_{backend}_rank_0", table("2.10", ring(1, name=f"{backend}:all_reduce"), {}))
    write_sidecar(tmp_path / "fr_meta_rank_0.json", 0, {"0": ("default_pg", (0, 1))})
    dumps = read_dumps([tmp_path]).dumps

    assert [dump.backend for dump in dumps] == ["gloo", "nccl"]
    assert [dump.groups[0].ranks for dump in dumps] == [(0, 1), (0, 1)]


def test_of_two_groups_with_one_name_only_the_newer_is_the_declared_one(tmp_path):
    entries = [Entry(pg_id=0), Entry(pg_id=4, record_id=1)]
    dump = read(tmp_path, entries)

    assert [(group.pg_id, group.ranks) for group in dump.groups] == [(0, None), (4, (0, 1))]
    assert any("'0'" in warning for warning in dump.warnings)
