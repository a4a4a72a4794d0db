"""What needs no torch: the package itself, torches of other releases, and files that appear whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provstore.capture import job_facts
from provstore.capture.recorders import read_recorders, setting_faults

USED = b"\x80\x02 profiling_name"
EMPTY = b"\x80\x02 version"


def torch_like(version: str, **functions: Any) -> Any:
    distributed = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False)
    bindings = SimpleNamespace(**functions)
    return SimpleNamespace(__version__=version, distributed=distributed, _C=SimpleNamespace(_distributed_c10d=bindings))


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_INCLUDE_STACK_TRACE"):
        monkeypatch.delenv(name, raising=False)


def python(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def test_importing_the_package_does_not_import_torch() -> None:
    modules = "provstore.capture, provstore.capture.tensors, provstore.capture.live"

    assert python(f"import sys, {modules}; print('torch' in sys.modules)") == "False\n"


@pytest.mark.parametrize(
    "use",
    [
        "provstore.capture.dump('x')",
        "provstore.capture.watch('x')",
        "provstore.capture.tensors.record('x')",
        "provstore.capture.live.run_job(pathlib.Path('x'), 'none')",
    ],
)
def test_without_torch_each_function_names_what_is_missing_and_how_to_get_it(use: str) -> None:
    program = f"""
import sys, pathlib, provstore.capture, provstore.capture.tensors, provstore.capture.live
from provstore.errors import ConfigError
sys.modules["torch"] = None
try:
    {use}
except ConfigError as error:
    print(error, "|", error.hint)
"""
    text = python(program)

    assert text.startswith("torch: ")
    assert "pip install 'provstore[capture]'" in text


def test_a_torch_before_2_8_is_told_which_one_to_install() -> None:
    old = torch_like("2.6.0+cpu")

    recordings = read_recorders(old, ["gloo"])

    assert recordings.pickles == {}
    assert any("torch: 2.6.0+cpu: " in error and "torch>=2.8" in error for error in recordings.errors)
    assert "torch>=2.8" in setting_faults(old)[0]


def test_torch_2_8_to_2_14_has_one_recorder_of_gloo_and_nccls_own() -> None:
    def generic(collectives: bool, stacks: bool, only_active: bool) -> bytes:
        return USED + bytes([collectives, stacks, only_active])

    def nccl(collectives: bool, stacks: bool, only_active: bool) -> bytes:
        return USED + b"nccl" + bytes([collectives, stacks, only_active])

    torch = torch_like("2.12.0", _dump_fr_trace=generic, _dump_nccl_trace=nccl)

    assert read_recorders(torch, ["gloo", "nccl"]).pickles == {
        "gloo": USED + b"\1\1\0",
        "nccl": USED + b"nccl\1\1\0",
    }


def test_from_torch_2_15_each_backend_is_asked_for_its_own_recorder_and_idle_ones_are_left_out() -> None:
    def generic(collectives: bool, stacks: bool, only_active: bool, backend: str = "gloo") -> bytes:
        """Takes backend=."""
        return USED + backend.encode() if backend in {"nccl2", "mpi"} else EMPTY

    torch = torch_like("2.15.0", _dump_fr_trace=generic, _dump_nccl_trace=lambda *flags: EMPTY)

    assert read_recorders(torch, ["nccl", "nccl2", "mpi"]).pickles == {"nccl2": USED + b"nccl2", "mpi": USED + b"mpi"}


def test_a_rank_that_issued_nothing_leaves_one_empty_dump() -> None:
    torch = torch_like("2.12.0", _dump_fr_trace=lambda *flags: EMPTY, _dump_nccl_trace=lambda *flags: EMPTY)

    assert read_recorders(torch, []).pickles == {"gloo": EMPTY}


def test_a_recorder_that_fails_is_named_and_the_others_are_read() -> None:
    def broken(*flags: bool) -> bytes:
        raise RuntimeError("no communicator")

    torch = torch_like("2.12.0", _dump_fr_trace=lambda *flags: USED, _dump_nccl_trace=broken)
    recordings = read_recorders(torch, [])

    assert recordings.pickles == {"gloo": USED}
    assert recordings.errors == ("nccl recorder: RuntimeError: no communicator",)


@pytest.mark.parametrize(
    ("version", "settings", "faulty"),
    [
        ("2.10.0", {}, ["TORCH_FR_BUFFER_SIZE"]),
        ("2.10.0", {"TORCH_NCCL_TRACE_BUFFER_SIZE": "500"}, []),
        ("2.11.0", {}, []),
        ("2.15.0", {"TORCH_FR_BUFFER_SIZE": "0", "TORCH_NCCL_TRACE_BUFFER_SIZE": "500"}, ["TORCH_FR_BUFFER_SIZE"]),
        ("2.15.0", {"TORCH_FR_BUFFER_SIZE": "", "TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}, ["TORCH_FR_BUFFER_SIZE"]),
        ("2.15.0", {"TORCH_INCLUDE_STACK_TRACE": "false"}, ["TORCH_INCLUDE_STACK_TRACE"]),
        ("2.15.0", {"TORCH_INCLUDE_STACK_TRACE": "1"}, []),
    ],
)
def test_settings_that_make_dumps_useless_are_named(
    monkeypatch: pytest.MonkeyPatch, version: str, settings: dict[str, str], faulty: list[str]
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    assert [fault.partition(":")[0] for fault in setting_faults(torch_like(version))] == faulty


def test_the_device_of_a_rank_is_named_as_the_driver_names_it() -> None:
    properties = SimpleNamespace(
        name="NVIDIA H100",
        uuid="8f3f2c1e-0d6b-7a11-9c55-1d2e3f405162",
        pci_domain_id=0,
        pci_bus_id=0x3B,
        pci_device_id=0,
    )

    assert job_facts._device_names(5, properties) == {
        "index": "5",
        "name": "NVIDIA H100",
        "uuid": "GPU-8f3f2c1e-0d6b-7a11-9c55-1d2e3f405162",
        "pci_bus_id": "00000000:3B:00.0",
    }


def test_nccl_may_be_recorded_under_each_name_of_its_implementations() -> None:
    assert job_facts._backends([{"backend_config": "cpu:gloo,cuda:nccl"}]) == ("gloo", "nccl", "nccl2", "nccl-lazy")
