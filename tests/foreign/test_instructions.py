"""Every command of VERIFY.txt: it succeeds on the export as it was written, and fails after one bit was changed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.exports.evidence import EvidenceExportOptions, writer
from tests.foreign import tools
from tests.foreign.exports import HOSTILE_RUN, exported, flip
from tests.signed_logs import signed_run

_BLOCK = re.compile(r"(?:\A|\n\n)((?:[^\n]+\n)+)--- ([^\n]+)\n(.*?)\n---(?=\n)", re.DOTALL)
_ALL = tuple(f"epoch-3.{form}" for form in ("pae.bin", "sig.raw"))

# Beginning of the title → tool, and the files of which each changed bit must be found.
CHECKS = {
    "Key in pub.pem": ("openssl", ("pub.pem",)),
    "The same with ssh-keygen": ("ssh-keygen", ("pub.ssh",)),
    "Digests, chain and tree": (
        "python3",
        (*_ALL, "epoch-0.jsonl", "epoch-4.jsonl", "epoch-2.dsse.json", "epoch-2.sigstore.json", "run.intoto.jsonl"),
    ),
    "Signatures: OpenSSL": ("openssl", (*_ALL, "pub.pem")),
    "Signatures: securesystemslib": ("securesystemslib", ("epoch-3.dsse.json", "pub.pem")),
    "Signatures: in-toto": ("in-toto", ("epoch-3.dsse.json", "pub.pem")),
    "Signatures: Node": ("node", (*_ALL, "pub.pem")),
    "Signatures and digests: npm": ("@sigstore/verify", ("epoch-3.sigstore.json", "epoch-3.jsonl")),
    "Signatures: Java": ("java", _ALL),
    "Signatures: Go": ("go", ("epoch-3.dsse.json", "pub.pem")),
    "Signatures and digests: cosign": ("cosign", ("epoch-3.sigstore.json", "epoch-3.jsonl")),
    "Shape of the statements": ("in-toto-attestation", ()),
    "Signature of the checkpoint": ("openssl", ("checkpoint",)),
    "Root of the tree: pymerkle": ("pymerkle", ("epoch-1.jsonl", "checkpoint")),
    "Checkpoint and tree: Go": ("go", ("epoch-1.jsonl", "checkpoint")),
    "Proofs of single records": ("python3", ("record-7.json", "record-7.tlog-proof", "checkpoint")),
}
_MODULES = {"securesystemslib": "securesystemslib", "in-toto": "in_toto", "in-toto-attestation": "in_toto_attestation"}


def blocks(directory: Path, *keyids: str) -> dict[str, tuple[str, str]]:
    """Return title → (tool, commands) of VERIFY.txt; its reader has written the keys' fingerprints where they go."""
    text = (directory / "VERIFY.txt").read_text(encoding="utf-8")
    found = {title.replace("\n", " ").strip(): (tool, told) for title, tool, told in _BLOCK.findall(text)}
    for at, keyid in enumerate(keyids, 1):
        file = "pub" if at == 1 else f"pub-{at}"
        for title, (tool, told) in found.items():
            if f" {file}.pem" in title or f" {file}.ssh" in title:
                found[title] = (tool, told.replace("EXPECTED=''", f"EXPECTED='{keyid}'"))
    return found


def need(tool: str) -> None:
    """Find a tool, or raise the error that counts it as missing."""
    if tool == "@sigstore/verify":
        tools.program("node")
        tools.npm_packages()
    elif tool == "go":
        tools.go_program()
    elif tool == "java":
        tools.program("java")
        tools.program("javac")
    elif tool == "pymerkle" or tool in _MODULES:
        tools.python_package(tool, _MODULES.get(tool, tool))
    elif tool != "python3":
        tools.program(tool)


def run(tool: str, told: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a block as a reader would, with this environment's Python first."""
    environment = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    if tool == "@sigstore/verify":
        environment["NODE_PATH"] = str(tools.npm_packages())
    if tool == "go":
        # The modules were fetched when the tests' own program was built.
        modules = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
        environment |= {"GOPROXY": f"file://{modules}/cache/download", "GOSUMDB": "off", "GOFLAGS": "-mod=mod"}
    return tools.run(["bash", "-c", told], folder=folder, **environment)


KEY = PrivateKey.generate()
KEYID = fingerprint(KEY.public_key)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("exports") / "plain"
    exported(directory, signed_run(closed=True, keys=[KEY]), records="all")
    return directory


@pytest.fixture
def block(plain: Path) -> Callable[[str], tuple[str, str]]:
    def find(beginning: str) -> tuple[str, str]:
        (found,) = [value for title, value in blocks(plain, KEYID).items() if title.startswith(beginning)]
        need(found[0])
        return found

    return find


def test_the_instructions_hold_a_block_for_every_tool_and_no_other(plain: Path) -> None:
    found = blocks(plain)

    assert [tool for tool, _ in found.values()] == [tool for tool, _ in CHECKS.values()]
    assert all(title.startswith(beginning) for title, beginning in zip(found, CHECKS))


@pytest.mark.parametrize("beginning", CHECKS)
def test_each_block_succeeds_on_what_was_exported_and_fails_after_one_changed_bit(
    beginning: str, plain: Path, block: Callable[[str], tuple[str, str]], tmp_path: Path
) -> None:
    tool, told = block(beginning)
    done = run(tool, told, plain)
    assert done.returncode == 0, done.stderr.decode()

    for name in CHECKS[beginning][1]:
        altered = tmp_path / name
        shutil.copytree(plain, altered)
        flip(altered / name)
        assert run(tool, told, altered).returncode != 0, name


@pytest.mark.parametrize("beginning", ["Key in pub.pem", "The same with ssh-keygen"])
def test_no_key_is_the_right_one_before_the_reader_has_written_its_fingerprint(beginning: str, plain: Path) -> None:
    other = fingerprint(PrivateKey.generate().public_key)
    assert KEYID not in (plain / "VERIFY.txt").read_text(encoding="utf-8")
    for keyids in ((), (other,), ("",), (KEYID.removeprefix("SHA256:"),)):
        (tool, told), *_ = [one for title, one in blocks(plain, *keyids).items() if title.startswith(beginning)]
        need(tool)
        assert run(tool, told, plain).returncode != 0, keyids


def test_a_run_whose_name_is_a_command_only_appears_as_text(tmp_path: Path) -> None:
    exported(tmp_path / "out", signed_run(HOSTILE_RUN, closed=True, keys=[KEY]))
    expected = {
        title: told for title, told in blocks(tmp_path / "out", KEYID).items() if told[0] in {"openssl", "python3"}
    }

    assert len(expected) == 4
    for tool, told in expected.values():
        done = run(tool, told, tmp_path / "out")
        assert done.returncode == 0, done.stderr.decode()
    assert not list(tmp_path.rglob("pwned"))


def test_two_keys_in_one_run_are_each_used_for_their_own_epochs(tmp_path: Path) -> None:
    keys = [PrivateKey.generate() for _ in range(2)]
    log = signed_run(keys=[keys[0], keys[0], keys[1]], closed=True)
    exported(tmp_path / "out", log)
    found = blocks(tmp_path / "out", *(fingerprint(key.public_key) for key in keys))

    for title, (tool, told) in found.items():
        if tool in {"openssl", "ssh-keygen", "python3", "securesystemslib", "node"}:
            need(tool)
            done = run(tool, told, tmp_path / "out")
            assert done.returncode == 0, (title, done.stderr.decode())
    assert (
        "check 0 1 pub.pem &&\ncheck 2 4 pub-2.pem"
        in found["Signatures: OpenSSL 3 (-rawin; a regular file, not a pipe)"][1]
    )


@pytest.mark.parametrize("keyid", ["hex", "none"])
def test_the_commands_hold_whatever_spelling_of_the_key_id_was_asked_for(keyid: str, tmp_path: Path) -> None:
    exported(tmp_path / "out", signed_run(sizes=[3, 2], closed=True), keyid=keyid)

    found = blocks(tmp_path / "out")
    assert ("cosign" in {tool for tool, _ in found.values()}) == (keyid == "none"), "cosign rejects other key ids"
    for title, (tool, told) in found.items():
        if tool in {"python3", "securesystemslib", "in-toto", "@sigstore/verify", "go"}:
            need(tool)
            done = run(tool, told, tmp_path / "out")
            assert done.returncode == 0, (title, done.stderr.decode())


def test_a_part_of_a_run_is_checked_as_far_as_it_goes(tmp_path: Path) -> None:
    exported(tmp_path / "out", signed_run(closed=True, keys=[KEY]), epoch=2, records=[7])

    for title, (tool, told) in blocks(tmp_path / "out", KEYID).items():
        if tool in {"openssl", "python3", "securesystemslib", "in-toto", "node"}:
            need(tool)
            done = run(tool, told, tmp_path / "out")
            assert done.returncode == 0, (title, done.stderr.decode())


SIGNED = {"sshsig": "ssh-keygen", "minisign": "minisign", "in-toto": "in-toto-verify", "signify": "signify-openbsd"}


@pytest.mark.parametrize("form", SIGNED)
def test_the_commands_for_a_signature_over_all_files_stand_there_too(form: str, tmp_path: Path) -> None:
    log, signer = signed_run(closed=True), PrivateKey.generate()
    signing = writer.Signing((form,), signer, {"file"} if form == "signify" else {"run"})
    report = writer.export(log, tmp_path / "out", log.publics, EvidenceExportOptions(), signing)
    *_, told = [told for tool, told in blocks(tmp_path / "out").values() if tool == SIGNED[form]]
    need({"in-toto-verify": "in-toto", "signify-openbsd": "signify"}.get(SIGNED[form], SIGNED[form]))

    assert report.signatures == (form,)
    done = run(form, told, tmp_path / "out")
    assert done.returncode == 0, done.stderr.decode()
    flip(tmp_path / "out" / "epoch-2.jsonl")
    assert run(form, told, tmp_path / "out").returncode != 0


@pytest.mark.parametrize(("keyid", "is_accepted"), [("ssh", True), ("none", True), ("hex", False)])
def test_cosign_takes_the_fingerprint_or_no_key_id(keyid: str, is_accepted: bool, tmp_path: Path) -> None:
    need("cosign")
    log, _ = exported(tmp_path / "ssh")
    exported(tmp_path / "out", log, keyid=keyid)
    (told,) = [told for tool, told in blocks(tmp_path / "ssh").values() if tool == "cosign"]

    assert (run("cosign", told, tmp_path / "out").returncode == 0) is is_accepted
