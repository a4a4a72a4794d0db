"""Readers of signals take any text: they find what is there, count what is odd, and never fail."""

from __future__ import annotations

import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st

from provstore.errors import InputError
from provstore.model.recording import ExternalSignal
from provstore.sources.signals.dcgm import COUNT, GAUGE, Dcgm
from provstore.sources.signals.devices import gpu_uuid, pci_address
from provstore.sources.signals.exposition import samples
from provstore.sources.signals.gcm import Gcm
from provstore.sources.signals.kernel_log import KernelLog
from provstore.sources.signals.prometheus import Limit, Prometheus, answer
from provstore.sources.signals.xid_lines import xid

WORDS = (
    "NVRM: ", "Xid ", "(", ")", ": ", "79", "PCI:0000:01:00", "[ 1.5] ", "kernel: ", "\n", "{", "}", '"', "=", " ", ",",
    "NVRM: Xid (PCI:0000:01:00): ", f'{GAUGE}{{gpu="0"}} ', f'{COUNT}{{gpu="0",xid="31"}} ', "NaN", "XID error: ", "\\",
    "NVRM: GPU at ", "pid=", "name=", "\x00", "é",
)  # fmt: skip
pieces = st.sampled_from(WORDS)
texts = st.lists(pieces | st.text(max_size=5), max_size=40).map("".join)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["status", "data", "resultType", "result", "metric", "value", "rank"]), inner)
    ),
    max_leaves=20,
)


@given(texts)
def test_a_line_is_an_xid_exactly_if_its_message_has_the_form_of_one(line):
    said = xid(line)

    if said is not None:
        assert f"NVRM: Xid ({said.address}): " in line
        assert said.code > 0


@given(texts)
def test_addresses_have_one_spelling_that_is_read_as_itself(text):
    for read in (pci_address, gpu_uuid):
        found = read(text)
        assert found is None or read(found) == found


@given(texts, st.binary(max_size=200))
def test_any_kernel_log_is_read(text, data):
    log = KernelLog(host="node1")

    found = [*log.read_dmesg(text), *log.read_journal(data), *log.read_journal(json.dumps({"MESSAGE": text}).encode())]

    assert all(isinstance(one, ExternalSignal) and one.code for one in found)
    assert log.read_dmesg(text) == []
    assert json.loads(json.dumps(log.state())) == log.state()


@given(texts)
def test_any_text_of_an_exporter_is_read(text):
    dcgm = Dcgm()
    found, odd = samples(text)
    dcgm.read(text)
    again = dcgm.read(text)

    assert len(found) + odd <= len(text.split("\n"))
    assert again == [] or odd or len(found) > 1
    assert json.loads(json.dumps(dcgm.state())) == dcgm.state()


@given(st.integers(-10, 300), texts)
def test_any_output_of_a_health_check_is_read(exit_code, output):
    gcm = Gcm(host="node1")
    gcm.read(exit_code, output)

    assert gcm.read(exit_code, output) == []


@given(json_values)
def test_any_json_is_an_answer_or_an_error_that_says_why(value):
    shaped = {"status": "success", "data": {"resultType": "vector", "result": value}}
    for said in (value, shaped):
        with contextlib.suppress(InputError):
            found = answer(json.dumps(said).encode())
            fired = Prometheus(Limit("x", 0.0)).take(found).signals
            assert {one.value for one in fired} == {one.value for one in found.samples if one.value > 0}
