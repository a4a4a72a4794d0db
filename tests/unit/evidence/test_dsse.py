"""Our own envelopes have one spelling and nothing unknown; those of others are read as widely as DSSE asks."""

from __future__ import annotations

import base64
import json

import pytest

from provstore.errors import TrustError
from provstore.evidence import dsse, keys
from tests.cost import how_many_times

KEYID = "SHA256:lbmsoA0yIEcEiVDRnMWuzm+nV+3ZEEpVIURqFoeSspg"
SIG = base64.b64encode(bytes(64)).decode()
MIB = 1 << 20


def envelope(payload="e30=", kind=dsse.INTOTO, **signature):
    return {"payload": payload, "payloadType": kind, "signatures": [{"keyid": KEYID, "sig": SIG} | signature]}


def text(value):
    """Return sorted JSON without blanks, which is canonical for these documents."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def refusal(parse, data, **options):
    with pytest.raises(TrustError) as refused:
        parse(data, **options)
    return refused.value.code


def test_an_envelope_of_ours_is_read_as_it_was_made_and_its_signature_holds():
    key = keys.PrivateKey.generate()
    made = dsse.sign(b'{"a":1}', dsse.INTOTO, key)
    found = dsse.parse(made.encode())

    assert found == made
    assert found.encode() == made.encode()
    assert (found.payload, found.payload_type, len(found.signatures)) == (b'{"a":1}', dsse.INTOTO, 1)
    assert found.signatures[0].keyid == keys.fingerprint(key.public_key)
    assert keys.is_signed(key.public_key, found.signed_bytes(), found.signatures[0].sig)
    assert dsse.parse_foreign(made.encode()) == (made, ())


def test_the_text_is_that_of_the_specification_written_by_hand():
    made = dsse.Envelope(b"{}", dsse.INTOTO, (dsse.Signature(KEYID, bytes(64)),))

    assert made.encode() == (
        b'{"payload":"e30=","payloadType":"application/vnd.in-toto+json",'
        b'"signatures":[{"keyid":"SHA256:lbmsoA0yIEcEiVDRnMWuzm+nV+3ZEEpVIURqFoeSspg","sig":"' + SIG.encode() + b'"}]}'
    )
    assert dsse.parse(text(envelope())) == made


def without(name):
    return {key: value for key, value in envelope().items() if key != name}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b"[]", b"null", b"1", b'"x"', b"\xff", b"\xef\xbb\xbf" + text(envelope()),
        text(envelope()).decode().encode("utf-16"),
        text(envelope())[:-1], text(envelope()) + b"\n", b" " + text(envelope()),
        json.dumps(envelope()).encode(),
        text(envelope() | {"extra": 1}), text(envelope(cert="x")), text(envelope(Sig=SIG)),
        text(without("payload")), text(without("payloadType")), text(without("signatures")),
        text(envelope() | {"Payload": "e30="}), text(envelope() | {"PAYLOADTYPE": dsse.INTOTO}),
        text(envelope() | {"signatureſ": []}), text(envelope() | {"payloadtype": "x"}),
        text(envelope()).replace(b'"payload":"e30="', b'"payload":"e30=","payload":"e30="'),
        text(envelope()).replace(b'"keyid":', b'"keyid":"x","keyid":'),
        text(envelope() | {"signatures": []}), text(envelope() | {"signatures": {}}),
        text(envelope() | {"signatures": None}), text(envelope() | {"signatures": [1]}),
        text(envelope() | {"signatures": [[]]}), text(envelope() | {"signatures": envelope()["signatures"] * 2}),
        text(envelope() | {"signatures": [{"keyid": KEYID}]}), text(envelope() | {"signatures": [{"sig": SIG}]}),
        text(envelope(keyid=None)), text(envelope(keyid=1)), text(envelope(sig=None)), text(envelope(sig=[])),
        text(envelope(payload=None)), text(envelope(payload=7)), text(envelope(payload=["e30="])),
        text(envelope(kind="application/vnd.in-toto+Json")), text(envelope(kind="application/vnd.in-toto+json ")),
        text(envelope(kind="")), text(envelope(kind=None)), text(envelope(kind=1)),
        text(envelope(keyid=KEYID)).replace(b"SHA256", b"\\u0053HA256"),
        text(envelope()).replace(KEYID.encode(), b"\\ud800"),
        text(envelope()).replace(f'"{KEYID}"'.encode(), b"1.5"),
        text(envelope()).replace(f'"{KEYID}"'.encode(), b"NaN"),
    ],
)  # fmt: skip
def test_what_is_not_exactly_an_envelope_of_ours_is_malformed(data):
    assert refusal(dsse.parse, data) == "envelope-malformed"


LOOSE = ["e31=", "e30", "e30==", "e3 0=", "e30=\n", "-_-_", "+/+/=", "=", "e30=e30=", "é", "ｅ30="]


@pytest.mark.parametrize("loose", LOOSE)
def test_base64_of_ours_has_one_spelling(loose):
    assert refusal(dsse.parse, text(envelope(payload=loose))) == "base64-noncanonical"
    assert refusal(dsse.parse, text(envelope(sig=loose))) == "base64-noncanonical"


def test_a_signature_that_was_taken_out_is_read_and_never_holds():
    """Whether a signature holds is for the one who has the keys: an empty one is a bad signature, not another form."""
    found = dsse.parse(text(envelope(sig="")))

    assert found.signatures[0].sig == b""
    assert not keys.is_signed(keys.PrivateKey.generate().public_key, found.signed_bytes(), b"")


def test_another_type_and_more_signatures_are_taken_only_where_they_are_asked_for():
    two = text(envelope(kind="application/x") | {"signatures": envelope()["signatures"] * 2})

    assert len(dsse.parse(two, payload_type="application/x", most_signatures=2).signatures) == 2
    assert refusal(dsse.parse, two, payload_type="application/x") == "envelope-malformed"
    assert refusal(dsse.parse, two, most_signatures=2) == "envelope-malformed"


@pytest.mark.parametrize(("size", "fits"), [(MIB - 1, True), (MIB, True), (MIB + 1, False)])
def test_a_payload_has_a_mebibyte_at_most(size, fits):
    data = dsse.Envelope(bytes(size), dsse.INTOTO, (dsse.Signature(KEYID, bytes(64)),)).encode()
    key = keys.PrivateKey.generate()
    if fits:
        assert len(dsse.parse(data).payload) == size
        assert len(dsse.parse_foreign(data)[0].payload) == size
        assert dsse.sign(bytes(size), dsse.INTOTO, key).payload == bytes(size)
    else:
        assert refusal(dsse.parse, data) == "cap-exceeded"
        assert refusal(dsse.parse_foreign, data) == "cap-exceeded"
        assert refusal(dsse.sign, bytes(size), payload_type=dsse.INTOTO, signer=key) == "cap-exceeded"


def test_a_payload_that_is_too_long_is_not_even_decoded():
    data = text(envelope(payload="!" * 1_398_105))

    assert refusal(dsse.parse, data) == refusal(dsse.parse_foreign, data) == "cap-exceeded"


@pytest.mark.parametrize(("size", "fits"), [(2 * MIB - 1, True), (2 * MIB, True), (2 * MIB + 1, False)])
def test_a_text_has_two_mebibytes_at_most(size, fits):
    start = text(envelope() | {"a": ""})
    data = start.replace(b'"a":""', b'"a":"' + b"x" * (size - len(start)) + b'"')
    assert len(data) == size

    # Ours has no member that could be so long, so it is refused either way, and only the larger unread.
    assert refusal(dsse.parse, data) == ("envelope-malformed" if fits else "cap-exceeded")
    if fits:
        assert dsse.parse_foreign(data)[0].payload == b"{}"
    else:
        assert refusal(dsse.parse_foreign, data) == "cap-exceeded"


@pytest.mark.parametrize(("size", "fits"), [(65_535, True), (65_536, True), (65_537, False)])
@pytest.mark.parametrize("parse", [dsse.parse, lambda data: dsse.parse_foreign(data)[0]])
def test_a_string_beside_the_payload_has_64_kib_at_most(parse, size, fits):
    for keyid in ("x" * size, "é" * (size // 2) + "x" * (size % 2)):
        data = text(envelope(keyid=keyid))
        if fits:
            assert parse(data).signatures[0].keyid == keyid
        else:
            assert refusal(parse, data) == "cap-exceeded"


@pytest.mark.parametrize(("depth", "code"), [(31, None), (32, None), (33, "cap-exceeded"), (100_000, "cap-exceeded")])
def test_an_envelope_is_not_deeper_than_32(depth, code):
    data = text(envelope() | {"a": 0}).replace(b'"a":0', b'"a":' + b"[" * (depth - 1) + b"]" * (depth - 1))
    if code:
        assert refusal(dsse.parse_foreign, data) == code
        assert refusal(dsse.parse, data) == code
    else:
        assert dsse.parse_foreign(data)[0].payload == b"{}"


@pytest.mark.parametrize(("count", "code"), [(15, None), (16, None), (17, "cap-exceeded"), (0, "envelope-malformed")])
def test_a_foreign_envelope_has_1_to_16_signatures(count, code):
    data = text(envelope() | {"signatures": envelope()["signatures"] * count})
    if code:
        assert refusal(dsse.parse_foreign, data) == code
    else:
        assert len(dsse.parse_foreign(data)[0].signatures) == count


def test_a_foreign_envelope_may_have_blanks_unknown_members_numbers_and_no_keyid():
    loose = envelope() | {"x": {"y": [1.5, 1e999, -0.0, 7]}, "payload": "e30="}
    loose["signatures"] = [{"sig": SIG, "cert": None}, {"keyid": None, "sig": SIG}, {"keyid": "", "sig": SIG}]
    data = json.dumps(loose, indent=2).replace("Infinity", "9" * 5_000).encode()
    found, odd = dsse.parse_foreign(data)

    assert found.payload == b"{}"
    assert [one.keyid for one in found.signatures] == ["", "", ""]
    assert odd == ()


@pytest.mark.parametrize(
    ("written", "bits", "codes"),
    [
        ("+/+/", b"\xfb\xff\xbf", ()),
        ("-_-_", b"\xfb\xff\xbf", ()),
        ("e30=", b"{}", ()),
        ("e31=", b"{}", ("base64-noncanonical",)),
        ("_x==", b"\xff", ("base64-noncanonical",)),
        ("", b"", ()),
    ],
)
def test_a_foreign_envelope_may_have_either_alphabet_and_loose_bits_are_named(written, bits, codes):
    assert dsse.parse_foreign(text(envelope(payload=written)))[0].payload == bits
    assert dsse.parse_foreign(text(envelope(payload=written)))[1] == codes
    found, odd = dsse.parse_foreign(text(envelope(sig=written)))
    assert (found.signatures[0].sig, odd) == (bits, codes)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b"[]", b"null", b"\xff", b"\xef\xbb\xbf" + text(envelope()), text(envelope())[:-1],
        text(envelope()).decode().encode("utf-16"), text(envelope()) + b"{}",
        text(without("payload")), text(without("payloadType")), text(without("signatures")),
        text(envelope() | {"Payload": "e30="}), text(envelope() | {"payLoadType": "x"}), text(envelope(SIG=SIG)),
        # Go's JSON decoder takes these two for "signatures" and "keyid".
        text(envelope() | {"\u017fignatures": []}),
        text(envelope() | {"x": 1}).replace(b'"keyid"', '"\u212aeyid":"x","keyid"'.encode()),
        text(envelope()).replace(b'"payload":"e30="', b'"payload":"e30=","payload":"e30="'),
        text(envelope()).replace(b'"keyid":', b'"keyid":"x","keyid":'),
        text(envelope() | {"x": 1}).replace(b'"x":1', b'"x":{"y":1,"y":1}'),
        text(envelope() | {"x": 1}).replace(b'"x":1', b'"x":NaN'),
        text(envelope() | {"x": 1}).replace(b'"x":1', b'"x":-Infinity'),
        text(envelope() | {"signatures": {}}), text(envelope() | {"signatures": [1]}), text(envelope(sig=None)),
        text(envelope(keyid=3)), text(envelope(kind=None)), text(envelope(payload=3)),
        text(envelope()).replace(KEYID.encode(), b"\\ud800"), text(envelope(kind="x")).replace(b'"x"', b'"\\udc00"'),
        *(text(envelope(payload=one)) for one in ("e30", "e3 0=", "e30=\n", "-_+/", "é", "=", "e30=e30=", "e30==")),
    ],
)  # fmt: skip
def test_what_two_readers_could_take_for_different_things_is_refused_in_foreign_envelopes_too(data):
    assert refusal(dsse.parse_foreign, data) == "envelope-malformed"


@pytest.mark.parametrize("parse", [dsse.parse, dsse.parse_foreign])
def test_a_large_hostile_object_is_refused_in_time_that_grows_with_its_size_alone(parse):
    def refuse(count):
        names = b",".join(b'"n%d":0' % number for number in range(count))
        assert refusal(parse, b"{" + names + b',"n%d":0}' % (count - 1)) == "envelope-malformed"

    assert how_many_times(lambda: refuse(80_000), lambda: refuse(20_000), rounds=3) < 8


def test_a_large_object_of_unknown_members_is_refused():
    names = b",".join(b'"n%d":0' % number for number in range(150_000))

    assert refusal(dsse.parse, b"{" + names + b"}") == "envelope-malformed"


NEED = "need exactly payload, payloadType, signatures"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (text(envelope() | {"extra": 1}), f"envelope: members: {NEED}"),
        (b"[]", f"envelope: members: {NEED}"),
        (text(envelope() | {"signatures": [1]}), "envelope: signature: need exactly keyid, sig"),
        (text(envelope() | {"signatures": []}), "envelope: signatures: need a list with a signature"),
        (text(envelope() | {"signatures": envelope()["signatures"] * 2}), "envelope: signatures: 2 are more than 1"),
        (text(envelope(keyid=1)), "envelope: keyid: is no string"),
        (text(envelope(sig=None)), "envelope: sig: is no string"),
        (text(envelope(payload=7)), "envelope: payload: is no string"),
        (text(envelope(keyid="x" * 65_537)), "envelope: keyid: more than 65536 bytes"),
        (text(envelope(sig="A" * 65_540)), "envelope: sig: more than 65536 bytes"),
        (text(envelope(payload="A" * 1_398_108)), "envelope: payload: more than 1048576 bytes"),
        (text(envelope(kind="x" * 99)), f"envelope: payloadType: '{'x' * 60}' is not {dsse.INTOTO}"),
        (text(envelope(kind="é\n")), f"envelope: payloadType: '\\xe9\\n' is not {dsse.INTOTO}"),
        (text(envelope(kind=1)), f"envelope: payloadType: a int is not {dsse.INTOTO}"),
    ],
)
def test_a_refusal_of_an_envelope_of_ours_names_the_place(data, message):
    with pytest.raises(TrustError) as refused:
        dsse.parse(data)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("parse", "data", "start"),
    [
        (dsse.parse, text(envelope(sig="e31=")), "envelope: sig: "),
        (dsse.parse, text(envelope(payload="e31=")), "envelope: payload: "),
        (dsse.parse, b"\xff", "envelope: "),
        (dsse.parse, b"[" * 40, "envelope: "),
        (dsse.parse_foreign, b"{}", "envelope: members: need payload, payloadType, signatures"),
        (dsse.parse_foreign, text(envelope() | {"signatures": [{}]}), "envelope: members: need sig"),
        (dsse.parse_foreign, text(envelope() | {"Payload": 1}), "envelope: member 'Payload': a known name in another"),
        (dsse.parse_foreign, text(envelope(SIG=1)), "envelope: member 'SIG': a known name in another"),
        (dsse.parse_foreign, text(envelope(kind=None)), "envelope: payloadType: is no string"),
        (dsse.parse_foreign, text(envelope(keyid=3)), "envelope: keyid: is no string"),
        (dsse.parse_foreign, text(envelope(sig=3)), "envelope: sig: is no string"),
        (dsse.parse_foreign, text(envelope(payload=3)), "envelope: payload: is no string"),
        (dsse.parse_foreign, text(envelope(payload="!" * 50)), f"envelope: payload: '{'!' * 40}': not base64"),
        (dsse.parse_foreign, text(envelope(sig="!")), "envelope: sig: '!': not base64"),
        (dsse.parse_foreign, text(envelope(kind="x")).replace(b'"x"', b'"\\udc00"'), "envelope: payloadType: holds a"),
        (dsse.parse_foreign, text(envelope() | {"x": 1}).replace(b'"x":1', b'"x":NaN'), "envelope: number: NaN"),
        (dsse.parse_foreign, text(envelope())[:-1], "envelope: "),
        (dsse.parse_foreign, b"[" * 40, "envelope: "),
        (dsse.parse_foreign, text(envelope() | {"signatures": envelope()["signatures"] * 17}),
         "envelope: signatures: 17 are more than 16"),
    ],
)  # fmt: skip
def test_a_refusal_of_an_envelope_begins_with_the_place(parse, data, start):
    with pytest.raises(TrustError) as refused:
        parse(data)
    assert str(refused.value).startswith(start)


@pytest.mark.parametrize("mixed", ["-A+A", "-A/A", "_A+A", "_A/A"])
def test_a_foreign_text_has_one_alphabet_only(mixed):
    assert refusal(dsse.parse_foreign, text(envelope(payload=mixed))) == "envelope-malformed"


def test_what_is_too_long_to_be_signed_is_named():
    with pytest.raises(TrustError, match="envelope: payload: 1048577 bytes are more than 1048576"):
        dsse.sign(bytes(MIB + 1), dsse.INTOTO, keys.PrivateKey.generate())
