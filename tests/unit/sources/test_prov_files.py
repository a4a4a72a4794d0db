"""PROV-JSON and PROV-N files, good and bad."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import prov
import pytest
from prov.model import ProvDocument, ProvFutureRejectionWarning

from provstore import rooms
from provstore.errors import InputError, NotUnderstoodError
from provstore.graph.prov_compare import strict_diff
from provstore.graph.prov_objects import document_parts
from provstore.model.prov import Bundle, Record
from provstore.sources import prov_document, prov_json, prov_n

WHEEL = Path(prov.__file__).parent / "tests"
in_wheel = pytest.mark.skipif(not WHEEL.is_dir(), reason="the installed prov has no tests folder")

GOOD = {
    "prefix": {"ex": "http://example.org/", "default": "http://default.org/"},
    "entity": {"ex:e": {"ex:size": {"$": "5", "type": "xsd:int"}}, "bare": [{}, {"prov:label": "again"}]},
    "activity": {"ex:a": {"prov:startTime": "2020-01-01T00:00:00Z"}},
    "used": {"_:id1": {"prov:activity": "ex:a", "prov:entity": "ex:e"}},
    "hadMember": {"_:id2": {"prov:collection": "ex:c", "prov:entity": ["ex:m1", "ex:m2"]}},
    "bundle": {"ex:b": {"entity": {"ex:inner": {}}}},
}


def written(folder: Path, text: str | bytes, name: str = "case.json") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(folder: Path, text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        prov_json.read(written(folder, text))
    message = str(caught.value)
    assert message.startswith("case.json: PROV-JSON")
    assert message.isprintable()
    return message


def test_a_document_is_read_with_its_counts(tmp_path: Path) -> None:
    document = prov_json.read(written(tmp_path, json.dumps(GOOD)))
    assert document.kinds == {"entity": 4, "activity": 1, "used": 1, "hadMember": 2}
    assert (document.records, document.bundles) == (8, 1)
    assert document.key == f"sha256-{document.digest}"


def test_the_prefix_may_come_last(tmp_path: Path) -> None:
    last = {key: GOOD[key] for key in (*[key for key in GOOD if key != "prefix"], "prefix")}
    first = prov_json.read(written(tmp_path, json.dumps(GOOD), "first.json"))
    other = prov_json.read(written(tmp_path, json.dumps(last), "last.json"))
    assert strict_diff(first.parts(), other.parts()).equal_at == "exact"


@pytest.mark.parametrize("window", [1, 2, 7, 64])
def test_no_cut_of_the_window_changes_what_is_read(
    tmp_path: Path, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps({**GOOD, "agent": {"ex:ag": {"ex:n": [1.5, -12e-3, True, '\\ud83d\u00e9 " ']}}}, indent=1)
    whole = list(prov_json.read(written(tmp_path, text)).parts())
    monkeypatch.setattr("provstore.graph.prov_json_text._WINDOW", window)
    cut = list(prov_json.read(written(tmp_path, text)).parts())
    assert cut == whole


@in_wheel
def test_the_strict_reader_and_the_library_read_the_same_from_every_json_file_of_the_wheel() -> None:
    differing = {}
    for path in sorted((WHEEL / "json").glob("*.json")):
        ours = prov_json.read(path, allow_empty=True)
        theirs = document_parts(ProvDocument.deserialize(source=str(path), format="json"))
        found = strict_diff(ours.parts(), theirs)
        if not found.holds("multiset"):
            differing[path.name] = found.first
    # The library drops a value that one record states twice.
    assert set(differing) == {"activity8.json", "agent8.json", "entity8.json"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1 column 1 (offset 0): the file is empty"),
        ('{"prefix": {}}', "the document holds no record"),
        ("[]", 'line 1 column 1 (offset 0): expected an object, found "["'),
        ("3", "expected an object"),
        ('{"entity": {"ex:a": {}}}', 'line 1 column 13 (offset 12): entity "ex:a": its prefix is not declared'),
        ('{"entity": {"a": {"b": 1}}}', "its prefix is not declared"),
        ('{"entities": {}}', '(offset 1): "entities" is no kind of PROV record'),
        ('{"bundle": {"prov:b": {"bundle": {}}}}', '"bundle" is no kind of PROV record'),
        ('{"entity": {"prov:a": 3}}', "is neither an object nor a list of objects"),
        ('{"entity": {"prov:a": {"prov:b": {"type": "xsd:int"}}}}', 'attribute "prov:b": a value object lacks its "$"'),
        ('{"entity": {"prov:a": {"prov:b": {"$": "x", "kind": "y"}}}}', 'unknown key "kind"'),
        ('{"entity": {"prov:a": {"prov:b": {"$": true}}}}', 'the "$" of a value object is true'),
        ('{"entity": {"prov:a": {"prov:b": {"$": "x", "type": "no:t"}}}}', '"no:t" does not resolve'),
        ('{"entity": {"prov:a": {"prov:b": 1e400}}}', "the number 1e400 is out of range"),
        ('{"activity": {"prov:a": {"prov:startTime": "yesterday"}}}', '"yesterday" is no xsd:dateTime'),
        ('{"used": {"_:u": {"prov:activity": ["prov:a", "prov:b"]}}}', "argument activity has 2 values"),
        ('{"used": {"_:u": {"prov:activity": []}}}', "the list is empty"),
        ('{"entity": {"prov:a": {}}} x', "(offset 27): unexpected text after the document"),
        ('{"entity": {"prov:a": {}', "expected ',' or '}', found the end of the file"),
        ('{"entity": {"prov:a": {"prov:b": "unfinished', "Unterminated string"),
        ('{"prefix": {"ex": 3}, "entity": {}}', 'the namespace of prefix "ex" is no IRI'),
        ('{"prefix": 3}', "expected an object"),
        ('{"entity": {"prov:a": {"prov:b": "\\ud800"}}}', 'attribute "prov:b": "\\ud800" holds a lone surrogate'),
        ('{"entity": {"prov:\\udfff": {}}}', 'entity "prov:\\udfff": holds a lone surrogate'),
        (b'{"entity": {"prov:a": {"prov:b": "\xff"}}}', "offset 34: not UTF-8 text"),
    ],
)
def test_a_malformed_document_is_refused_with_its_place(tmp_path: Path, text: str | bytes, reason: str) -> None:
    assert reason in refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"entity": {"prov:a": {}, "prov:a": {}}}', 'line 1 column 27 (offset 26): the key "prov:a" is repeated'),
        ('{"entity": {},\n "entity": {}}', 'line 2 column 2 (offset 16): the key "entity" is repeated'),
        ('{"entity": {"prov:a": {"prov:b": 1, "prov:b": 2}}}', '(offset 36): the key "prov:b" is repeated'),
        ('{"entity": {"prov:a": {"prov:b": {"$": "x", "\\u0024": "y"}}}}', '(offset 44): the key "$" is repeated'),
        ('{"prefix": {"a": "u:a", "a": "u:b"}, "entity": {}}', '(offset 24): the key "a" is repeated'),
    ],
)
def test_a_repeated_key_is_refused_with_its_offset(tmp_path: Path, text: str, place: str) -> None:
    assert place in refusal(tmp_path, text)


@pytest.mark.parametrize("open_", ["[", '{"a":'])
def test_nesting_of_a_hundred_thousand_is_refused(tmp_path: Path, open_: str) -> None:
    inside = '{"entity": {"prov:a": {"prov:b": ' + open_ * 100_000
    assert "nested too deeply" in refusal(tmp_path, inside)
    assert "(offset" in refusal(tmp_path, open_ * 100_000)


def test_every_truncation_of_a_document_is_refused(tmp_path: Path) -> None:
    text = json.dumps(GOOD)
    for length in range(len(text)):
        refusal(tmp_path, text[:length])


@in_wheel
@pytest.mark.parametrize("reader", [prov_json, prov_n])
def test_each_malformed_file_of_the_wheel_is_one_clear_error_with_file_and_format(reader: object) -> None:
    paths = sorted(path for path in (WHEEL / "malformed").iterdir() if path.is_file())
    assert len(paths) == 17
    for path in paths:
        with pytest.raises(InputError, match=rf"^{re.escape(path.name)}: PROV-(JSON|N)") as caught:
            reader.read(path)
        assert "\n" not in str(caught.value)


def test_malformed_prov_n_is_refused_with_line_and_column(tmp_path: Path) -> None:
    path = written(tmp_path, "document\n  entity(ex:e)\nendDocument\n", "case.provn")
    with pytest.raises(InputError, match=r"^case.provn: PROV-N line 2 column 10: .*'ex' is not declared"):
        prov_n.read(path)
    for text in ("", "document", 'document entity(prov:a, [prov:b="x])', b"\xff"):
        with pytest.raises(InputError, match=r"^case.provn: PROV-N"):
            prov_n.read(written(tmp_path, text, "case.provn"))


def test_prov_n_beyond_what_the_library_can_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prov_n, "MAX_BYTES", 10)
    with pytest.raises(NotUnderstoodError, match="bytes are more than 10"):
        prov_n.read(written(tmp_path, "document\nendDocument\n", "case.provn"))


def test_lost_digits_of_a_time_are_counted(tmp_path: Path) -> None:
    text = "document\n  activity(prov:a, 2020-01-01T00:00:00.123456789, -)\nendDocument\n"
    assert prov_n.read(written(tmp_path, text, "case.provn")).warnings == {"precision_lost": 1}


def test_frowned_on_input_is_counted(tmp_path: Path) -> None:
    text = json.dumps(
        {
            "prefix": {"ex": "http://example.org/"},
            "entity": {"http://example.org/e": {"ex:a": None, "ex:b": {"$": "no:x", "type": "xsd:QName"}}},
            "used": {"_:u": {"prov:activity": ["ex:a"]}},
        }
    )
    document = prov_json.read(written(tmp_path, text))
    assert document.warnings == {
        "iri_instead_of_name": 1,
        "null_dropped": 1,
        "unresolved_name_value": 1,
        "list_for_one_argument": 1,
    }


def test_files_are_recognised_by_their_first_bytes() -> None:
    dump = b'{"version": "2.10", "entries": []}'
    assert prov_json.recognises(json.dumps(GOOD).encode(), "x")
    assert prov_json.recognises(b'\n { "entity" : {', "x")
    assert not prov_json.recognises(dump, "rank0.json")
    assert prov_n.recognises(b"// made by hand\ndocument\n", "x")
    assert not prov_n.recognises(b"documentation", "x")
    assert not prov_n.recognises(dump, "x")
    assert not prov_json.recognises(b"\x80\x04\x95", "rank0")
    for name in ("prov-json", "prov-n", "prov-document"):
        assert not rooms.load("sources", name).recognises(b"", "x")


def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    for reader in (prov_json, prov_n):
        with pytest.raises(InputError, match="cannot be read: No such file"):
            reader.read(tmp_path / "none")


def test_a_file_that_changes_between_two_looks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prov_json, "_HELD_BYTES", 0)
    path = written(tmp_path, json.dumps(GOOD))
    document = prov_json.read(path)
    assert sum(isinstance(part, Record) for part in document.parts()) == 8
    path.write_text(json.dumps({**GOOD, "agent": {"ex:x": {}}}))
    with pytest.raises(InputError, match="the file changed while it was read"):
        list(document.parts())


def test_an_object_is_taken_as_it_is_now() -> None:
    made = ProvDocument()
    made.add_namespace("ex", "http://example.org/")
    made.entity("ex:e")
    document = prov_document.read(made)
    same = prov_document.read(made)
    made.entity("ex:later")
    assert list(document.parts()) == [
        Bundle(None, (("ex", "http://example.org/"),)),
        next(part for part in document.parts() if isinstance(part, Record)),
    ]
    assert document.key == same.key != prov_document.read(made).key


def test_what_is_no_document_and_values_without_prov_form_are_refused() -> None:
    with pytest.raises(InputError, match=r"^dict: ingest: neither a path nor a prov.model.ProvDocument"):
        prov_document.read({})
    made = ProvDocument()
    made.add_namespace("ex", "http://example.org/")
    with pytest.warns(ProvFutureRejectionWarning):
        made.entity("ex:e", {"ex:bad": object()})
    with pytest.raises(InputError, match="entity ex:e attribute ex:bad: a value of type object has no PROV form"):
        prov_document.read(made)


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
def test_a_large_document_is_read_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("w") as out:
        out.write('{"prefix": {"ex": "http://example.org/"}, "used": {')
        filler = "x" * 1000
        for number in range(60_000):
            comma = "," if number else ""
            out.write(f'{comma}"_:u{number}": {{"prov:activity": "ex:a", "prov:entity": "ex:e", "ex:v": "{filler}"}}\n')
        out.write("}}")
    code = (
        "import sys, re, pathlib; from provstore.sources import prov_json;"
        # Not ru_maxrss: that starts at what the parent held when it forked.
        "peak = lambda: int(re.search(r'VmHWM:\\s+(\\d+) kB', pathlib.Path('/proc/self/status').read_text())[1]);"
        "before = peak();"
        "d = prov_json.read(pathlib.Path(sys.argv[1]));"
        "print(d.records, peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    records, grown = map(int, done.stdout.split())
    assert records == 60_000
    # The file alone is 65 MB; the peak is in KiB.
    assert grown < 30_000
