"""Reading is cheap: linear, and without the heavy imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from provstore.sources.flight_recorder import read_dumps
from tests.cost import how_many_times
from tests.fr_files import T0, Entry, table, write_pickle

ROOT = Path(__file__).parents[3]


def loop(count: int) -> list[Entry]:
    """Return the calls of a training loop: three operations on two groups, 24 frames deep, one batch size a step."""
    stacks = [tuple((f"f{depth}", f"layer{at}.py", depth) for depth in range(24)) for at in range(3)]
    return [
        Entry(
            name=("nccl:_all_gather_base", "nccl:_reduce_scatter_base", "nccl:all_reduce")[at % 3],
            seq=at // 3 * (1 if at % 3 == 2 else 2) + at % 3,
            record_id=at,
            op_id=at,
            group="0" if at % 3 == 2 else "1",
            pg_id=0 if at % 3 == 2 else 1,
            inputs=((at // 3 % 1000, 4096),),
            created_ns=T0 + at * 1000,
            frames=stacks[at % 3],
        )
        for at in range(count)
    ]


def test_four_times_as_many_calls_with_changing_sizes_take_about_four_times_as_long_to_read(tmp_path):
    groups = {"0": ("default_pg", (0, 1)), "1": ("tp", (0, 1))}
    for count in (2_000, 8_000):
        (tmp_path / str(count)).mkdir()
        write_pickle(tmp_path / str(count) / "rank_0", table("2.10", loop(count), groups))

    def read(count: int) -> None:
        (dump,) = read_dumps([tmp_path / str(count)]).dumps
        assert len(dump.calls) == count

    assert how_many_times(lambda: read(8_000), lambda: read(2_000), rounds=3) < 8


def test_reading_imports_no_engine_and_no_table_library(tmp_path):
    write_pickle(tmp_path / "rank_0", table("2.10", loop(3), {}))
    script = (
        "import pathlib, sys\n"
        "from provstore.sources.flight_recorder import read_dumps\n"
        "read_dumps([pathlib.Path(sys.argv[1])])\n"
        "print(sorted({'numpy', 'pandas', 'pyarrow', 'kglite', 'neo4j', 'torch', 'prov'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert done.stdout.strip() == "[]"
