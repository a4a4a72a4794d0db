"""XID errors are read from kernel logs, DCGM and GCM: each event once, on the right GPU, and no look-alike."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from provstore.errors import ConfigError, InputError
from provstore.model.recording import ExternalSignal
from provstore.sources.signals.dcgm import COUNT, GAUGE, Dcgm
from provstore.sources.signals.devices import Device, Devices, gpu_uuid, of_headers, pci_address, scopes
from provstore.sources.signals.exposition import Sample, samples
from provstore.sources.signals.gcm import Gcm
from provstore.sources.signals.kernel_log import KernelLog, boot_moment_ns
from provstore.sources.signals.xid_lines import xid
from provstore.sources.signals.xid_table import TABLE, overridden

UUID = "GPU-34d7319c-5b19-1e75-186d-c187099e4fe5"
OTHER = "GPU-efbdfde9-5798-a6e7-4c46-12518fa15375"
DEVICES = Devices(
    [
        Device(0, "node1", "0000:01:00", UUID),
        Device(1, "node1", "0000:3b:00", OTHER),
        Device(2, "node2", "0000:01:00", "GPU-3b6ec030-5adc-1847-e155-79f635584b4e"),
    ]
)

ACCEPTED = [
    ("NVRM: Xid (PCI:0000:01:00): 79, pid=1234, name=python3, GPU has fallen off the bus.", "0000:01:00", 79),
    ("NVRM: Xid (0000:01:00): 14, Channel 00000001", "0000:01:00", 14),
    ("NVRM: NVRM: Xid (PCI:0001:00:00.0): 79, GPU has fallen off the bus", "0001:00:00", 79),
    ("NVRM: Xid (PCI:0001:00:00.0): 48", "0001:00:00", 48),
    ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9).", "0000:01:00", 94),
    ("NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 13, pid=9, name=a, Graphics Exception", "0000:3b:00", 13),
    ("NVRM: Xid (PCI:0000:00:08): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1).", "0000:00:08", 94),
    ("NVRM: Xid (PCI:0000:dc:00): 45, pid=18, name=python3, Ch 00000001 caused by previous Xid 149", "0000:dc:00", 45),
    ("[12345.678901] NVRM: Xid (PCI:0000:01:00): 79, x", "0000:01:00", 79),
    ("[ 1399.140323] NVRM: Xid (PCI:0000:01:00): 32, Channel ID 00000009", "0000:01:00", 32),
    ("[Wed Jul 31 23:14:18 2024] NVRM: Xid (PCI:0000:00:05): 43, pid=1, name=pt_main_thread, Ch 8", "0000:00:05", 43),
    ("<3>[  100.5] NVRM: Xid (PCI:0000:01:00): 31", "0000:01:00", 31),
    ("kern  :err   : [  100.500000] NVRM: Xid (PCI:0000:01:00): 31", "0000:01:00", 31),
    ("4,339,5140900,-;NVRM: Xid (PCI:0000:01:00): 31, pid=1", "0000:01:00", 31),
    ("Mar 05 23:33:35 node1 kernel: NVRM: Xid (PCI:0000:01:00): 79, x", "0000:01:00", 79),
    ("Mar  5 23:33:35 node1 kernel: [ 99.1] NVRM: Xid (PCI:0000:01:00): 79, x", "0000:01:00", 79),
    ("2026-09-14T20:30:27-0400 node1 kernel: NVRM: Xid (PCI:0000:01:00): 79, pid=0", "0000:01:00", 79),
    ("2024-01-15T03:00:00,000000+00:00 NVRM: Xid (PCI:0000:3b:00): 79, pid=1", "0000:3b:00", 79),
    ("kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990", "0000:dc:00", 45),
]

LOOK_ALIKE = [
    "Xid 79",
    "python[7]: training stopped after Xid 79",
    "Mar 05 23:33:35 node1 python[7]: NVRM: Xid (PCI:0000:01:00): 79, as I read it",
    "node1 audit: msg='NVRM: Xid (PCI:0000:01:00): 79'",
    "NVRM: Xid 79 (PCI:0000:01:00)",
    "NVRM: Xid (PCI:0000:01:00) 79",
    "NVRM: Xid (PCI:0000:01:00): unknown",
    "NVRM: Xid (PCI:0000:01:00): 0, nothing",
    "NVRM: Xid (PCI:0000:01:00): 79abc",
    "NVRM: Xid (PCI:0000:01:00): 79.5",
    "NVRM: Xid (PCI:0000:01:00): -79",
    "NVRM: Xid (): 79",
    "NVRM:Xid (PCI:0000:01:00): 79",
    "NVRM: Xid(PCI:0000:01:00): 79",
    "NVRM: Xid (PCI:0000:01:00):79",
    "NVRM: Xid (PCI:0000:01:00: 79",
    "NVRM: SXid (PCI:0000:00:00.0): 11001, Fatal",
    "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 11001, Fatal, ingress invalid command",
    "xNVRM: Xid (PCI:0000:01:00): 79",
    "nvrm: xid (PCI:0000:01:00): 79",
    "NVRM: GPU at PCI:0000:01:00: GPU-34d7319c-5b19-1e75-186d-c187099e4fe5",
    "NVRM: The NVIDIA GPU 0000:b3:00.0",
    "",
]


@pytest.mark.parametrize(("line", "address", "code"), ACCEPTED)
def test_a_line_in_which_the_driver_states_an_xid_is_read(line, address, code):
    said = xid(line)

    assert said.code == code
    assert pci_address(said.address) == address


@pytest.mark.parametrize("line", LOOK_ALIKE)
def test_a_line_that_only_looks_like_an_xid_is_none(line):
    assert xid(line) is None
    assert KernelLog(DEVICES, host="node1", run_ns=0).read_dmesg(line) == []


@pytest.mark.parametrize(
    ("head", "host"),
    [
        # journalctl -o short-monotonic, short-precise, short-full, short-unix; --time-format iso of dmesg.
        ("[   12.345678] node1 kernel: ", "node1"), ("Dec 01 10:00:00.123456 node1 kernel: ", "node1"),
        ("Tue 2026-12-01 10:00:00 UTC node1 kernel: ", "node1"), ("1796119200.123456 node1 kernel: ", "node1"),
        ("2026-12-01T10:00:00,123456+00:00 ", None), ("[2026-12-01T10:00:00] ", None),
        # A syslog server that writes the facility, or RFC 5424; a kernel that says which thread printed it.
        ("Dec  1 10:00:00 node1 kern.err kernel: [   1.2] ", "node1"),
        ("<3>1 2026-12-01T10:00:00+00:00 node1 kernel - - - [   1.2] ", "node1"),
        ("[   12.345678] [   T1234] ", None), ("[   12.345678][    C7] ", None),
    ],
)  # fmt: skip
def test_a_line_is_read_whatever_the_programs_that_write_kernel_logs_put_before_it(head, host):
    said = xid(f"{head}NVRM: Xid (PCI:0000:01:00): 79, pid=7")

    assert (said.code, said.pid, said.host) == (79, 7, host)
    assert xid(f"{head}someone wrote NVRM: Xid (PCI:0000:01:00): 79") is None
    assert xid(f"{head}python[12]: NVRM: Xid (PCI:0000:01:00): 79") is None


def test_process_and_time_are_read_where_the_line_has_them():
    said = xid("2026-09-14T20:30:27.5-0400 node1 kernel: NVRM: Xid (PCI:0000:01:00): 31, pid=42, name=python3.10, Ch 8")

    # 2026-09-15T00:30:27.5Z.
    assert (said.pid, said.process, said.host, said.at_ns) == (42, "python3.10", "node1", 1_789_432_227_500_000_000)
    assert xid("[ 1399.140323] NVRM: Xid (PCI:0000:01:00): 32").boot_ns == 1_399_140_323_000
    assert xid("[ 1399.140323] node1 kernel: NVRM: Xid (PCI:0000:01:00): 32").boot_ns == 1_399_140_323_000
    assert xid("Mar 05 23:33:35 n kernel: NVRM: Xid (PCI:0000:01:00): 32").at_ns is None
    assert xid("NVRM: Xid (PCI:0000:01:00): 63, pid='<unknown>', name=<unknown>").pid is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0000:01:00", "0000:01:00"), ("PCI:0000:01:00", "0000:01:00"), ("00000000:3B:00.0", "0000:3b:00"),
        ("0000:3b:00.0", "0000:3b:00"), ("3b:00.0", "0000:3b:00"), ("PCI:0001:00:00.0", "0001:00:00"),
        ("00010000:3b:00.0", "10000:3b:00"), ("0000:3b:00.1", "0000:3b:00.1"), ("0000:01:00 GPU-I:05", "0000:01:00"),
        ("PCI:1:0:0", None), ("1:0", None), ("", None), ("gpu 0", None), ("0000:01", None), ("0000:01:00.9", None),
        ("0000:01:00:02", None), ("000:01:00", None),
    ],
)  # fmt: skip
def test_a_pci_address_has_one_spelling(text, wanted):
    assert pci_address(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [(UUID, UUID), (UUID.upper(), UUID), (UUID[4:], UUID), ("MIG-" + UUID[4:], "MIG-" + UUID[4:]), ("GPU-34d7", None),
     (UUID + "0", None), ("", None)],
)  # fmt: skip
def test_a_uuid_has_one_spelling(text, wanted):
    assert gpu_uuid(text) == wanted


def test_a_rank_is_found_by_uuid_or_by_address_and_host():
    assert DEVICES.ranks(uuid=UUID) == (0,)
    assert DEVICES.ranks(host="node1", pci="0000:01:00") == (0,)
    assert DEVICES.ranks(host="node2", pci="0000:01:00") == (2,)
    assert DEVICES.ranks(host="node2.cluster.local", pci="0000:01:00") == (2,)


@pytest.mark.parametrize(
    "where",
    [
        {"pci": "0000:01:00"}, {"host": "node3", "pci": "0000:01:00"}, {"host": "node1", "pci": "0000:99:00"},
        {"uuid": "GPU-00000000-0000-0000-0000-000000000000"}, {"host": "node1"},
        {"uuid": UUID, "host": "node1", "pci": "0000:3b:00"},
    ],
)  # fmt: skip
def test_where_a_rank_is_not_certain_none_is_named(where):
    assert DEVICES.ranks(**where) is None


def test_a_host_without_its_domain_is_not_guessed_between_two():
    two = Devices([Device(0, "node1.a"), Device(1, "node1.b")])

    assert two.host("node1") is None
    assert two.host("node1.a") == "node1.a"
    assert two.host("node1.c") is None
    assert Devices(hosts=["NODE7"]).host("node7") == "NODE7"


def test_all_ranks_on_one_gpu_are_named():
    assert Devices([Device(r, "n", "0000:01:00") for r in range(3)]).ranks(host="n", pci="0000:01:00") == (0, 1, 2)


def test_capture_headers_say_which_gpu_a_rank_has_and_the_latest_one_counts():
    devices = of_headers(
        [
            {"rank": 0, "host": "node1", "device": {"index": 0, "pci_bus_id": "00000000:01:00.0", "uuid": UUID}},
            {"rank": 1, "host": "node1", "device": None},
            {"rank": 0, "host": "node2", "device": {"pci_bus_id": "00000000:3B:00.0", "uuid": OTHER}},
            {"rank": "x", "host": 5},
        ]
    )

    assert devices.ranks(host="node2", pci="0000:3b:00") == (0,)
    assert devices.ranks(uuid=UUID) is None
    assert devices.hosts == ("node2", "node1")
    assert devices.has_rank(1)


def signal(**changes):
    return ExternalSignal("xid", "kernel-log", "…", **changes)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"ranks": (0, 1), "host": "node1"}, ("rank:0", "rank:1")),
        ({"host": "node1"}, ("host:node1",)),
        ({"host": "node1.local"}, ("host:node1",)),
        ({"host": "somewhere"}, ("run",)),
        ({}, ("run",)),
    ],
)
def test_a_signal_escalates_ranks_else_their_host_else_the_run(changes, wanted):
    assert scopes(signal(**changes), DEVICES) == wanted


def test_a_host_stands_where_nothing_is_known_of_the_runs_hosts():
    assert scopes(signal(host="node9")) == ("host:node9",)


@pytest.mark.parametrize("code", [13, 31, 43, 45])
def test_codes_of_applications_are_the_four_that_are_named(code):
    assert TABLE.fault_class(code) == "application"


@pytest.mark.parametrize("code", [48, 63, 64, 74, 79, 94, 95, 119, 154, 1, 62, 68, 92, 109, 149, 999])
def test_named_codes_of_the_hardware_and_every_code_that_is_not_listed_are_hardware(code):
    assert TABLE.fault_class(code) == "hardware"


def test_an_operator_may_state_another_class():
    table = overridden(TABLE, {"149": "application", 31: "hardware"})

    assert (table.fault_class(149), table.fault_class(31), table.fault_class(79)) == (
        "application", "hardware", "hardware",
    )  # fmt: skip
    assert TABLE.fault_class(31) == "application"


@pytest.mark.parametrize("classes", [{"x": "hardware"}, {0: "hardware"}, {-1: "hardware"}, {79: "harmless"}])
def test_a_class_that_says_nothing_is_refused(classes):
    with pytest.raises(ConfigError):
        overridden(TABLE, classes)


def journal(*entries):
    """Entries as ``journalctl -k -o json`` prints them, one an object."""
    plain = {"_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel", "_HOSTNAME": "node1", "_BOOT_ID": "b" * 32}
    lines = []
    for at, entry in enumerate(entries):
        place = {"__CURSOR": f"s=1;i={at}", "__REALTIME_TIMESTAMP": str(10**15 + at), "__MONOTONIC_TIMESTAMP": str(at)}
        lines.append(plain | place | entry)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


FELL_OFF = "NVRM: Xid (PCI:0000:01:00): 79, pid=1, name=python3, GPU has fallen off the bus."


def test_an_entry_of_the_journal_becomes_a_signal_of_the_rank_on_that_gpu():
    log = KernelLog(DEVICES, run_ns=10**18)

    (found,) = log.read_journal(journal({"MESSAGE": "usb 1-1: new device"}, {"MESSAGE": FELL_OFF}))

    assert found == ExternalSignal(
        "xid", "kernel-log", FELL_OFF, 79, "hardware", "node1", "0000:01:00", (0,), 10**18 + 1000, "s=1;i=1"
    )
    assert scopes(found, DEVICES) == ("rank:0",)
    assert log.cursor == "s=1;i=1"


def test_a_message_of_the_journal_that_is_no_utf8_is_a_list_of_bytes():
    odd = list(FELL_OFF.encode() + b"\xff")

    (found,) = KernelLog(DEVICES).read_journal(journal({"MESSAGE": odd}))

    assert found.code == 79


@pytest.mark.parametrize(
    "entry",
    [{"MESSAGE": FELL_OFF, "_TRANSPORT": "stdout"}, {"MESSAGE": FELL_OFF, "_TRANSPORT": "syslog"}, {"MESSAGE": None},
     {"MESSAGE": ["a"]}, {"MESSAGE": {"text": FELL_OFF}}, {}],
)  # fmt: skip
def test_what_another_program_wrote_into_the_journal_is_no_event(entry):
    assert KernelLog(DEVICES).read_journal(journal(entry)) == []


def test_an_entry_is_told_once_however_often_it_is_read_and_after_a_restart():
    text = journal({"MESSAGE": FELL_OFF}, {"MESSAGE": FELL_OFF})
    log = KernelLog(DEVICES)

    first, again = log.read_journal(text), log.read_journal(text)
    restarted = KernelLog(DEVICES, state=json.loads(json.dumps(log.state())))

    assert (len(first), again) == (2, [])
    assert restarted.read_journal(text) == []
    assert restarted.cursor == "s=1;i=1"
    assert len(restarted.read_journal(journal({}, {}, {"MESSAGE": FELL_OFF}))) == 1


def test_the_same_position_after_another_boot_is_another_event():
    log = KernelLog(DEVICES)
    by_time = {"MESSAGE": FELL_OFF, "__CURSOR": None}

    assert len(log.read_journal(journal(by_time))) == 1
    assert len(log.read_journal(journal(by_time | {"_BOOT_ID": "c" * 32}))) == 1
    assert log.read_journal(journal(by_time)) == []


def test_lines_of_the_journal_that_are_none_are_problems_and_the_rest_is_read():
    log = KernelLog(DEVICES)

    found = log.read_journal(b"{\n[]\n" + b'{"MESSAGE":"' + b"x" * (1 << 20) + b'"}\n' + journal({"MESSAGE": FELL_OFF}))

    assert [one.code for one in found] == [79]
    assert [one.kind for one in log.problems] == ["malformed"] * 3


def test_events_before_the_run_are_context():
    text = journal({"MESSAGE": FELL_OFF}, {"MESSAGE": FELL_OFF})

    found = KernelLog(DEVICES, run_ns=10**18 + 1000).read_journal(text)

    assert [one.is_context for one in found] == [True, False]


def test_the_text_of_dmesg_is_read_anew_each_time_and_tells_each_event_once():
    log = KernelLog(DEVICES, host="node1", boot_ns=10**18, run_ns=10**18 + 150 * 10**9)
    early = "[  100.5] NVRM: Xid (PCI:0000:01:00): 31, pid=1\n"
    late = "[  200.5] NVRM: Xid (PCI:0000:01:00): 31, pid=1\n"

    first, second, third = log.read_dmesg(early), log.read_dmesg(early + late), log.read_dmesg(late)

    assert [(one.is_context, one.at_ns) for one in first] == [(True, 10**18 + 100_500_000_000)]
    assert [(one.is_context, one.ranks, one.fault_class) for one in second] == [(False, (0,), "application")]
    assert third == []


def test_dmesg_without_times_tells_equal_lines_apart_by_their_number_and_takes_the_first_poll_for_old():
    log = KernelLog(DEVICES, host="node1")
    line = FELL_OFF + "\n"

    assert [one.is_context for one in log.read_dmesg(line)] == [True]
    assert [one.is_context for one in log.read_dmesg(line + line)] == [False]
    assert log.read_dmesg(line + line) == []


def test_a_log_file_is_read_on_from_where_it_was_and_from_its_start_when_it_is_another(tmp_path):
    path, log = tmp_path / "kern.log", KernelLog(DEVICES, host="node1")
    path.write_text("Mar 05 23:33:34 node1 kernel: old\n" + "Mar 05 23:33:35 node1 kernel: " + FELL_OFF + "\n")

    first = log.read_file(path)
    with path.open("a") as file:
        file.write("Mar 05 23:33:36 node1 kernel: " + FELL_OFF + "\nMar 05 23:33:37 node1 kernel: NVRM: Xid (PCI:00")
    second = log.read_file(path)
    with path.open("a") as file:
        file.write("00:3b:00): 13\n")
    third = KernelLog(DEVICES, host="node1", state=json.loads(json.dumps(log.state()))).read_file(path)
    path.write_text("Mar 06 00:00:01 node1 kernel: " + FELL_OFF + "\n")
    rotated = log.read_file(path)

    assert [(one.code, one.is_context) for one in first] == [(79, True)]
    assert [(one.code, one.is_context) for one in second] == [(79, False)]
    assert [(one.code, one.ranks) for one in third] == [(13, (1,))]
    assert [one.code for one in rotated] == [79]
    assert log.read_file(path) == []


def test_a_log_file_that_is_empty_at_first_is_the_same_file_later(tmp_path):
    path, log = tmp_path / "kern.log", KernelLog(DEVICES, host="node1")
    path.touch()

    assert log.read_file(path) == []
    path.write_text(FELL_OFF + "\n")
    assert len(log.read_file(path)) == 1
    assert log.read_file(path) == []


def test_a_log_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.log: kernel log: No such file"):
        KernelLog(DEVICES).read_file(tmp_path / "nothing.log")


def test_a_gpu_whose_address_the_driver_names_is_found_by_its_uuid():
    log = KernelLog(Devices([Device(4, "node1", None, UUID)]), host="node1")
    named = "[ 1.0] NVRM: GPU at PCI:0000:41:00: " + UUID + "\n"

    (found,) = log.read_dmesg(named + "[ 2.0] NVRM: Xid (PCI:0000:41:00): 48, x\n")

    assert found.ranks == (4,)


def test_an_address_that_no_rank_has_concerns_the_host():
    (found,) = KernelLog(DEVICES, host="node1").read_dmesg("NVRM: Xid (PCI:0000:77:00): 149, x")

    assert (found.ranks, found.fault_class, scopes(found, DEVICES)) == (None, "hardware", ("host:node1",))
    (found,) = KernelLog(DEVICES, host="node1").read_dmesg("NVRM: Xid (somewhere): 79, x")
    assert (found.device, scopes(found, DEVICES)) == ("somewhere", ("host:node1",))


def test_a_long_line_is_cut_where_it_is_shown():
    (found,) = KernelLog(DEVICES).read_dmesg(FELL_OFF + "x" * 100_000)

    assert len(found.line) == 512


def test_the_moment_of_boot_is_read_from_the_kernels_statistics():
    assert boot_moment_ns("cpu 1 2\nbtime 1700000000\nprocesses 5\n") == 1_700_000_000 * 10**9
    assert boot_moment_ns("cpu 1 2\n") is None


def gauge(value, uuid=UUID, **labels):
    rest = "".join(f',{name}="{text}"' for name, text in labels.items())
    return f'{GAUGE}{{gpu="0",UUID="{uuid}",device="nvidia0",Hostname="node1"{rest}}} {value}\n'


def codes_of(dcgm, *polls):
    return [[one.code for one in dcgm.read(poll)] for poll in polls]


def test_a_gauge_that_stands_at_a_code_from_the_first_poll_does_not_fire():
    assert codes_of(Dcgm(DEVICES), gauge(79), gauge(79), gauge(79)) == [[], [], []]


def test_a_gauge_fires_when_it_changes_to_a_code_and_once_for_each_change():
    polls = [gauge(value) for value in (0, 31, 31, 79, 79, 0, 79)]

    assert codes_of(Dcgm(DEVICES), *polls) == [[], [31], [], [79], [], [], [79]]


def test_the_code_in_a_label_of_the_gauge_does_not_make_another_series_of_it():
    polls = [gauge(0, err_code="0", err_msg="none"), gauge(31, err_code="31", err_msg="Page fault"), gauge(31)]

    assert codes_of(Dcgm(DEVICES), *polls) == [[], [31], []]


def test_a_gauge_that_is_gone_for_a_while_is_remembered_and_so_after_a_restart():
    dcgm = Dcgm(DEVICES)

    assert codes_of(dcgm, gauge(31), "", gauge(31)) == [[], [], []]
    restarted = Dcgm(DEVICES, state=json.loads(json.dumps(dcgm.state())))
    assert codes_of(restarted, gauge(31), gauge(79)) == [[], [79]]


def test_every_gpu_has_its_own_gauge():
    dcgm = Dcgm(DEVICES)
    dcgm.read(gauge(0) + gauge(0, OTHER))

    found = dcgm.read(gauge(0) + gauge(48, OTHER))

    assert [(one.code, one.fault_class, one.ranks, one.host) for one in found] == [(48, "hardware", (1,), "node1")]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "31.5", "1e300"])
def test_a_gauge_that_is_no_code_is_a_problem_and_changes_nothing(value):
    dcgm = Dcgm(DEVICES)

    assert codes_of(dcgm, gauge(31), gauge(value), gauge(31)) == [[], [], []]
    assert [one.kind for one in dcgm.problems] == ["malformed"]


def count(value, code, uuid=UUID):
    return f'{COUNT}{{gpu="0",UUID="{uuid}",Hostname="node1",window_size_in_ms="300000",xid="{code}"}} {value}\n'


def test_the_count_fires_when_it_grows_and_not_at_the_first_poll():
    polls = [count(1, 31), count(1, 31), count(2, 31), count(2, 31) + count(1, 79), count(1, 79), "# none\n"]

    assert codes_of(Dcgm(DEVICES), *polls) == [[], [], [31], [79], [], []]


def test_a_count_that_begins_after_the_first_poll_is_new():
    assert codes_of(Dcgm(DEVICES), gauge(0), gauge(31) + count(1, 31)) == [[], [31]]


def test_count_and_gauge_of_one_event_are_one_signal():
    dcgm = Dcgm(DEVICES)

    assert codes_of(dcgm, gauge(0), gauge(42) + count(1, 42), gauge(42) + count(2, 42)) == [[], [42], [42]]


def test_values_from_elsewhere_are_taken_as_samples():
    dcgm = Dcgm(DEVICES, host="node1")
    dcgm.take([Sample(GAUGE, {"pci_bus_id": "00000000:3B:00.0"}, 0)])

    (found,) = dcgm.take([Sample(GAUGE, {"pci_bus_id": "00000000:3B:00.0"}, 95), Sample("OTHER", {}, 5)], 77)

    assert (found.ranks, found.device, found.at_ns, found.value) == ((1,), "0000:3b:00", 77, 95)


def test_the_text_of_an_exporter_is_read_by_its_format():
    text = (
        "# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.\n"
        "# TYPE DCGM_FI_DEV_XID_ERRORS gauge\n"
        'a{x="1, \\"two\\" \\\\ \\n three}",y=""} 1.5e3 1700000000000\n'
        'b 7\nc{} NaN\n d{x="1",} -1\n'
        'e{x=1} 2\nf\ng{x="1" 2\nh one\n'
    )  # fmt: skip

    found, odd = samples(text)

    assert found[0] == Sample("a", {"x": '1, "two" \\ \n three}', "y": ""}, 1500.0, 1_700_000_000 * 10**9)
    assert [one.name for one in found] == ["a", "b", "c", "d"]
    assert odd == 4


def test_lines_that_are_no_samples_are_counted():
    dcgm = Dcgm(DEVICES)
    dcgm.read("<html>\n<body>\n")

    assert [(one.kind, one.count) for one in dcgm.problems] == [("malformed", 2)]


NONE = "OK - xid. No XID error was found."
WARNED = "WARNING - xid. non-critical XID error: 31, XID causes: Driver Error, HW Error, User App Error. "
BROKEN = "WARNING - xid. dmesg command FAILED to execute. error_code: 1 output: XID error: 79 not permitted"
CRITICAL = (
    "CRITICAL - xid. XID error: 79, XID causes: Bus Error. non-critical XID error: 31, XID causes: Driver Error. "
)


def test_a_health_check_that_could_not_look_fires_nothing():
    gcm = Gcm(DEVICES, host="node1")
    gcm.read(0, NONE)

    assert gcm.read(1, BROKEN) == []
    assert [one.kind for one in gcm.problems] == ["failed"]
    assert [one.code for one in gcm.read(1, WARNED)] == [31]


@pytest.mark.parametrize(
    ("exit_code", "output"),
    [(3, "UNKNOWN - xid"), (1, "WARNING - check did not exit normally"), (2, "CRITICAL - xid. XID error: None, "),
     (1, ""), (127, "command not found"), (-9, ""), (0, "OK - xid. xid is disabled by killswitch.")],
)  # fmt: skip
def test_a_health_check_that_says_nothing_is_a_problem(exit_code, output):
    gcm = Gcm(DEVICES, host="node1")

    assert gcm.read(exit_code, output) == []
    assert len(gcm.problems) == 1


def test_a_health_check_names_each_code_once_and_the_host_is_concerned():
    gcm = Gcm(DEVICES, host="node1")
    polls = [gcm.read(0, NONE), gcm.read(1, WARNED), gcm.read(2, CRITICAL), gcm.read(2, CRITICAL)]

    assert [[(one.code, one.fault_class) for one in poll] for poll in polls] == [
        [], [(31, "application")], [(79, "hardware")], [],
    ]  # fmt: skip
    assert scopes(polls[2][0], DEVICES) == ("host:node1",)
    assert Gcm(state=json.loads(json.dumps(gcm.state()))).read(2, CRITICAL) == []


def test_what_the_first_health_check_finds_is_context():
    assert [(one.code, one.is_context) for one in Gcm(host="node1").read(2, CRITICAL)] == [(79, True), (31, True)]


def test_a_code_that_is_gone_and_comes_back_is_new():
    gcm = Gcm(host="node1")
    runs = ((0, NONE), (1, WARNED), (0, NONE), (1, WARNED))

    assert [[one.code for one in gcm.read(code, text)] for code, text in runs] == [[], [31], [], [31]]


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(InputError, match="kernel log: is no regular file"):
            KernelLog(DEVICES, host="node1").read_file(path)
