"""Whose line a call is at: the program's, not that of torch or of what records it."""

import pytest

from provstore.graph.frames import source_line, user_frame
from provstore.model.dump import Frame

PROGRAM = Frame("main", "/project/train.py", 12)
OUTERMOST = Frame("<module>", "/usr/lib/python3.11/runpy.py", 1)


@pytest.mark.parametrize(
    "path",
    [
        "/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py",
        "/src/pytorch/torch/distributed/distributed_c10d.py",
        "/usr/lib/python3.12/contextlib.py",
        "<frozen runpy>",
        "/venv/lib/python3.12/site-packages/provstore/capture/recording/group_methods.py",
        "/src/provstore/provstore/capture/asked_futures.py",
        "C:\\venv\\Lib\\site-packages\\torch\\nn\\parallel\\distributed.py",
        "",
    ],
)
def test_frames_of_torch_of_its_recorder_and_of_python_are_passed_over(path):
    assert user_frame([Frame("method", path, 128), PROGRAM, OUTERMOST]) == PROGRAM


@pytest.mark.parametrize(
    "path", ["/project/provstore/train.py", "/project/capture/recording/loop.py", "/project/torchlike/run.py"]
)
def test_a_program_with_a_like_name_is_the_program(path):
    mine = Frame("step", path, 3)

    assert user_frame([mine, PROGRAM]) == mine


def test_without_a_line_of_the_program_the_outermost_is_told():
    assert user_frame([Frame("method", "/usr/lib/python3.11/threading.py", 2), OUTERMOST]) == OUTERMOST
    assert user_frame([]) is None
    assert source_line(None) is None
