"""Which of pytest-xdist's workers runs what: whole files, all that need a server on one worker, long ones first."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

_ROOT = Path(__file__).parents[1]
_NEEDS_SERVER = re.compile(r"neo4j_server|neo4j_uri|empty_neo4j|evidence_graphs|\bstores\b[,:)]")
"""The fixtures of a server by name: each worker that needs one would start its own, which costs more than the tests."""
_SERVER = "a server"
_LONG = (
    "tests/systems/test_recorded_training.py",
    "tests/systems/test_reexecution_gloo.py",
    "tests/docs/test_pages.py",
    "tests/systems/test_known_defects.py",
    "tests/unit/capture/test_dump.py",
    "tests/trust/test_row07_kills.py",
    "tests/systems/test_corrupted_gradient.py",
    "tests/trust/test_row11_fuzz.py",
    "tests/integration/test_replay_command.py",
    "tests/systems/test_kill_during_ingest.py",
    "tests/unit/capture/test_live.py",
    "tests/trust/test_row08_fault_script.py",
    "tests/trust/test_row09_disk_full.py",
)
"""Few tests that take long: begun last, one worker would be left with them while the others have nothing to do."""


class WholeFiles(LoadFileScheduling):
    """Gives workers whole files as ``--dist loadfile`` does, in a better order."""

    def _split_scope(self, nodeid: str) -> str:
        path = super()._split_scope(nodeid)
        return _SERVER if _needs_server(path) else path

    def schedule(self) -> None:
        is_first = self.collection is None
        super().schedule()
        if is_first:
            for path in (*reversed(_LONG), _SERVER):
                if path in self.workqueue:
                    self.workqueue.move_to_end(path, last=False)


@functools.cache
def _needs_server(path: str) -> bool:
    return _NEEDS_SERVER.search((_ROOT / path).read_text(encoding="utf-8")) is not None
