"""``VERIFY.txt``: how to check an export with other people's programs, as commands that can be typed as they stand."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from provstore.evidence.statement import PREDICATE_EPOCH
from provstore.exports.evidence import HEX, NONE, EpochRow, ExportedKey
from provstore.exports.evidence import _commands as commands
from provstore.exports.evidence.signing_forms import SignedForm
from provstore.model.verification import ALWAYS, NEVER_CLOSED

_WIDTH = 100
_SPELLINGS = {HEX: "securesystemslib's id in hex digits", NONE: "empty"}
_SIGSTORE_PACKAGES = "@sigstore/bundle@4 @sigstore/protobuf-specs@0.5 @sigstore/verify@3"
_LIBRARY = "securesystemslib 1.6 (pip install 'securesystemslib[crypto]')"
_SIGNATURES = (
    ("openssl", "Signatures: OpenSSL 3 (-rawin; a regular file, not a pipe)", commands.OPENSSL),
    ("securesystemslib", f"Signatures: {_LIBRARY}", commands.SECURESYSTEMSLIB),
    ("in-toto", "Signatures: in-toto 3.1 (pip install in-toto)", commands.IN_TOTO),
    ("node", "Signatures: Node's crypto", commands.NODE),
    ("@sigstore/verify", f"Signatures and digests: npm install {_SIGSTORE_PACKAGES}", commands.SIGSTORE),
    ("java", "Signatures: Java 17", commands.JAVA),
    ("go", "Signatures: Go, go-securesystemslib/dsse (go get needs a network once)", commands.GO_DSSE),
)
"""Tool, title and commands of each check of all signatures."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the instructions depend on."""

    run: str
    attempt: int
    store: str
    rows: Sequence[EpochRow]
    keys: tuple[ExportedKey, ...]
    keyid: str
    has_checkpoint: bool
    has_proofs: bool
    unsigned: int
    signatures: Sequence[SignedForm] = ()


def instructions(facts: Facts) -> bytes:
    """Return the text of ``VERIFY.txt``."""
    return "\n".join((*_head(facts), *_sections(facts), *_tail(facts))).encode()


def _head(facts: Facts) -> Iterator[str]:
    rows = facts.rows
    yield "Signed evidence of a run, and how to check it without provstore and without a network"
    yield ""
    # What a run states is written as JSON in ASCII: it cannot end a line or look like a command.
    yield f"Run: {json.dumps(facts.run)}, attempt {facts.attempt}, journal {json.dumps(facts.store)}"
    yield f"Epochs: {rows[0].epoch} to {rows[-1].epoch}, records {rows[0].first} to {rows[-1].size - 1}"
    yield "Closed by its writer." if rows[-1].closed else NEVER_CLOSED
    if facts.unsigned:
        yield f"{facts.unsigned} later records are not signed and not here."
    if rows[0].epoch:
        yield "Only a part of the run is here: its order, and what came before, cannot be checked from these files."
    yield from _paragraph(ALWAYS)
    yield from _paragraph(
        "Who signed is known only by a fingerprint that you got from elsewhere, not from these files: whoever can "
        "change them can change the key and this text with them."
    )
    yield from _paragraph(
        "Order and completeness come from the chain: each statement names the digest of the one before, the range of "
        "its records and the root of the tree over all records so far. run.intoto.jsonl is not signed as a whole: a "
        "line that is missing, repeated or added is seen only through the chain. Keep the file checkpoint elsewhere: a "
        "later copy of the run whose tree does not contain it was rolled back or rewritten."
    )
    if facts.keyid in _SPELLINGS:
        spelling = _SPELLINGS[facts.keyid]
        yield from _paragraph(f"The key ids in the envelopes are {spelling}; a key id is a hint and is not signed.")
    yield from _paragraph(
        "Each block of commands below stands between lines of dashes. It ends with status 0 when what it checks holds, "
        "and with another one when not. Run them in this folder with bash. Those that check a key fail until you have "
        "written the fingerprint into them: this text does not know it from elsewhere."
    )


def _sections(facts: Facts) -> Iterator[str]:
    groups = _groups(facts)
    for key in facts.keys:
        yield from _key(key)
    title = "Digests, chain and tree, with Python's standard library; no signature"
    yield from _section("python3", title, commands.CHAIN, facts)
    if all(pem for _, _, pem in groups):
        calls = " &&\n".join(f"check {first} {last} {pem}" for first, last, pem in groups)
        for tool, title, text in _SIGNATURES:
            yield from _section(tool, title, text.replace("@CALLS@", calls), facts)
        # It takes no key id but the fingerprint, or none.
        if len(groups) == 1 and facts.keyid != HEX:
            title = "Signatures and digests: cosign 3"
            yield from _section("cosign", title, commands.COSIGN, facts)
    else:
        yield from _paragraph(
            "A public key was not known where this was written. Get it from elsewhere and put it here as pub.pem; "
            "then, for each epoch: openssl pkeyutl -verify -pubin -inkey pub.pem -rawin -in epoch-0.pae.bin -sigfile "
            "epoch-0.sig.raw"
        )
    title = "Shape of the statements: in-toto-attestation 0.9.3; no signature"
    yield from _section("in-toto-attestation", title, commands.IN_TOTO_ATTESTATION, facts)
    if facts.has_checkpoint:
        yield from _tree_sections(facts)
    for one in facts.signatures:
        yield from _block(one.tool, one.title, one.commands)


def _tree_sections(facts: Facts) -> Iterator[str]:
    has_key = _groups(facts)[-1][2] is not None
    is_whole = facts.rows[0].epoch == 0
    if has_key:
        title = "Signature of the checkpoint, and that the last statement says the same: OpenSSL 3"
        yield from _section("openssl", title, commands.CHECKPOINT, facts)
    if is_whole:
        yield from _section("pymerkle", "Root of the tree: pymerkle 7; no signature", commands.PYMERKLE, facts)
    if is_whole and has_key:
        title = "Checkpoint and tree: Go, golang.org/x/mod/sumdb/note and tlog (go get needs a network once)"
        yield from _section("go", title, commands.GO, facts)
    if facts.has_proofs:
        title = "Proofs of single records, with Python's standard library; no signature"
        yield from _section("python3", title, commands.PROOFS, facts)


def _key(key: ExportedKey) -> Iterator[str]:
    if key.file is None:
        yield from ("", f"Key {json.dumps(key.keyid)}: not here")
        return
    ssh = key.file.replace(".pem", ".ssh")
    for tool, title, text in (
        ("openssl", f"Key in {key.file}: its fingerprint must be one from elsewhere", commands.FINGERPRINT),
        ("ssh-keygen", f"The same with ssh-keygen, of {ssh}", commands.SSH_KEYGEN),
    ):
        yield from _block(tool, title, text.replace("@PEM@", key.file).replace("@SSH@", ssh))


def _section(tool: str, title: str, text: str, facts: Facts) -> Iterator[str]:
    pem = _groups(facts)[-1][2] or "pub.pem"
    filled = {
        "@FIRST@": str(facts.rows[0].epoch),
        "@LAST@": str(facts.rows[-1].epoch),
        "@PEM@": pem,
        "@VKEY@": pem.replace("pub", "vkey").removesuffix(".pem"),
        "@PREDICATE@": PREDICATE_EPOCH,
    }
    for mark, value in filled.items():
        text = text.replace(mark, value)
    yield from _block(tool, title, text)


def _block(tool: str, title: str, text: str) -> Iterator[str]:
    yield from (*_paragraph(title), f"--- {tool}", text.rstrip("\n"), "---")


def _groups(facts: Facts) -> list[tuple[int, int, str | None]]:
    """Return ranges of epochs that one key signed: first, last, its PEM file."""
    files = {key.keyid: key.file for key in facts.keys}
    found: list[tuple[int, int, str | None]] = []
    for row in facts.rows:
        if found and found[-1][2] == files[row.keyid]:
            found[-1] = (found[-1][0], row.epoch, files[row.keyid])
        else:
            found.append((row.epoch, row.epoch, files[row.keyid]))
    return found


def _tail(facts: Facts) -> Iterator[str]:
    if facts.rows[0].epoch:
        yield from _paragraph("provstore verify reads exports of whole runs only.")
    else:
        yield from ("", "With provstore: provstore verify FOLDER --trust FILE --anchor CHECKPOINT")
    if facts.keyid in _SPELLINGS:
        yield from _paragraph("It reports keyid-mismatch: it wants the key ids of an export with --keyid ssh.")
    yield ""


def _paragraph(text: str) -> tuple[str, ...]:
    return ("", *textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False))
