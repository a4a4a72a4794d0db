"""Signed evidence of a journal: listed, looked at byte by byte, and exported for other people's verifiers.

The journal is read, not the graph. Nothing here is a verification: what a bundle or record states is shown as stated.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from provstore import config
from provstore.api import agent_items
from provstore.api.action_names import ActionName, action_name
from provstore.api.opening import existing
from provstore.api.recorded_evidence import axes_of, export_agents, recorded_epochs
from provstore.errors import ConfigError, InputError, ProvstoreError, TrustError
from provstore.evidence import dsse, epoch_bundles, merkle, records, statement
from provstore.evidence.keys import Signer, fingerprint
from provstore.exports.evidence import EvidenceExportOptions, EvidenceExportReport
from provstore.exports.evidence.agent_records import AgentExportOptions, AgentExportReport
from provstore.journal import Journal
from provstore.model import canonical
from provstore.model.evidence import EPOCH_BUNDLE, MODES, BundleAt, RecordAt
from provstore.model.evidence_report import BundleRow, EvidenceItem, EvidenceList, RecordedEpoch, RunEvidence

BUNDLE, RECORD = "bundle", "record"
LEAST_PREFIX = 4
MAX_CANDIDATES = 20

_EPOCH = re.compile(r"epoch:(?P<run>.*):(?P<number>0|[1-9][0-9]{0,9})", re.DOTALL)
_RECORDED = re.compile(r"recorded:(?P<run>.*):(?P<number>0|[1-9][0-9]{0,15})", re.DOTALL)
_RECORD = re.compile(r"(?:record:(?P<run>.*):)?(?P<number>0|[1-9][0-9]{0,18})", re.DOTALL)
_DIGEST = re.compile(r"(?:sha256:)?(?P<prefix>[0-9a-f]{1,64})")

Scope = tuple[str, int]


class Evidence:
    """The evidence that a journal holds; made by :func:`opened`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def listed(
        self,
        run: str | None = None,
        attempt: int | None = None,
        *,
        epoch: int | None = None,
        mode: str | None = None,
    ) -> EvidenceList:
        """Return the bundles of each run, and the training epochs that were recorded.

        Args:
            run: Only this run; so does ``attempt`` narrow it.
            attempt: See ``run``.
            epoch: Only this training epoch.
            mode: Only training epochs whose weakest recorded mode is this one.

        Raises:
            ConfigError: There is no such mode.
            InputError: There is no such run, or none of the runs has that epoch.
        """
        if mode not in {None, *MODES}:
            raise ConfigError(f"{mode}: --mode: is none of {', '.join(MODES)}")
        found = [(self._of(scope), scope) for scope in self._scopes(run, attempt, signed=False)]
        recorded = [recorded_epochs(self._journal, scope) for _, scope in found]
        held = sorted({one.epoch for epochs in recorded for one in epochs})
        if epoch not in {None, *held}:
            shown = ", ".join(map(str, held[:MAX_CANDIDATES])) + ("" if len(held) <= MAX_CANDIDATES else ", …")
            raise InputError(f"training epoch {epoch}: is not recorded; recorded are {shown or 'none'}")
        return EvidenceList(
            tuple(
                replace(one, recorded=_chosen(epochs, epoch, mode))
                for (one, _), epochs in zip(found, recorded, strict=True)
            )
        )

    def shown(self, target: str, run: str | None = None, attempt: int | None = None) -> EvidenceItem:
        """Return one bundle or record.

        Args:
            target: ``epoch:RUN:N``; ``recorded:RUN:N`` for a training epoch; the index of a record, or
                ``record:RUN:INDEX``; the id or a short form (``r2:seq3``) of a recorded action; or the beginning of a
                digest: of a bundle's payload or epoch file, of a record, its leaf or the epoch that it tells of.
            run: Narrows the search; so does ``attempt``.
            attempt: See ``run``.

        Raises:
            ConfigError: ``target`` has none of these forms.
            InputError: It fits nothing, or several, which are listed.
        """
        found = list(self._found(target, run, attempt))
        if len(found) == 1:
            return self._with_axes(found[0])
        if not found:
            raise InputError(f"{target}: evidence: neither a bundle nor a record")
        listed = "; ".join(_named(one) for one in found[:MAX_CANDIDATES])
        more = f" and {len(found) - MAX_CANDIDATES} more" if len(found) > MAX_CANDIDATES else ""
        hint = "give one of these, or more of the digest, or choose with --run and --attempt"
        raise InputError(f"{target}: evidence: {len(found)} fit: {listed}{more}", hint=hint)

    def exported(
        self,
        directory: str | Path,
        run: str | None = None,
        attempt: int | None = None,
        *,
        options: EvidenceExportOptions | None = None,
        public_keys: Sequence[str | Path] = (),
        trust_file: str | Path | None = None,
        sign: Sequence[str] = (),
        signer: Signer | None = None,
    ) -> EvidenceExportReport:
        """Write the signed evidence of one attempt for other people's verifiers; no private key is needed.

        Args:
            directory: Absent or empty; it appears whole or not at all.
            run: The run; may be left out when one is signed.
            attempt: Its incarnation.
            options: What to write.
            public_keys: Files with public keys that may have signed; others are looked for in the trust file and among
                the user's own.
            trust_file: Where to look instead of the user's trust file.
            sign: Forms of signature over the whole export: ``sshsig``, ``minisign``, ``signify``, ``in-toto``.
            signer: Makes these; everything else needs no private key.

        Raises:
            ConfigError: A form of signature, and nothing to sign with.
            InputError: No such run, or nothing in it is signed.
            TrustError: The evidence does not hold.
        """
        from provstore.exports.evidence.writer import DEFAULTS, Signing, export

        fits = self._scopes(run, attempt, signed=True)
        if len(fits) > 1:
            listed = ", ".join(f"{name or '(imported documents)'} attempt {number}" for name, number in fits)
            raise InputError(f"evidence: export: {len(fits)} runs fit: {listed}", hint="choose RUN and --attempt")
        known = known_publics(public_keys, trust_file)
        signing = None
        if sign:
            if signer is None:
                raise ConfigError(f"{', '.join(sign)}: form: signs with a private key, and none is given")
            signing = Signing(sign, signer, _roles(fingerprint(signer.public_key), trust_file))
        return export(self._journal.evidence(*fits[0]), Path(directory), known, options or DEFAULTS, signing)

    def exported_agents(
        self,
        directory: str | Path,
        run: str | None = None,
        attempt: int | None = None,
        *,
        options: AgentExportOptions,
        signer: Signer | None = None,
    ) -> AgentExportReport:
        """Write the agent records of a run; see :func:`provstore.api.recorded_evidence.export_agents`."""
        return export_agents(self._journal, Path(directory), run, options, attempt, signer)

    def _with_axes(self, item: EvidenceItem) -> EvidenceItem:
        """Return an epoch's bundle with the axes of its agent record; anything else as it is."""
        if item.digests.get("recorded") is None:
            return item
        found = axes_of(self._journal, (item.run, item.attempt), item.digests["recorded"], known_publics())
        return replace(item, axes=found)

    def _of(self, scope: Scope) -> RunEvidence:
        log, size = self._journal.evidence(*scope), self._journal.evidence_size(*scope)
        rows = tuple(_row(bundle) for bundle in log.bundles())
        signed = max((row.size for row in rows if row.size is not None), default=0)
        return RunEvidence(*scope, log.store, size.records, signed, any(row.closed for row in rows), rows)

    def _scopes(self, run: str | None, attempt: int | None, *, signed: bool) -> list[Scope]:
        known = [scope for scope in self._journal.scopes() if run in {None, scope[0]} and attempt in {None, scope[1]}]
        if (not known and (run, attempt) != (None, None)) or (not known and signed):
            asked = f"run {run}" if run is not None else "runs"
            number = "" if attempt is None else f" attempt {attempt}"
            raise InputError(f"{self._journal.directory}: {asked}{number}: the journal holds none")
        if signed and len(known) > 1:
            return [scope for scope in known if self._journal.evidence_size(*scope).bundles] or known[:1]
        return known

    def _found(self, target: str, run: str | None, attempt: int | None) -> Iterator[EvidenceItem]:
        """Yield everything that a target may mean."""
        if target.startswith("epoch:"):
            wanted, number = _parts(_EPOCH, target)
            for scope in self._scopes(wanted, attempt, signed=False):
                yield from (one for one in self._bundles(scope) if one.number == number)
            return
        if target.startswith("recorded:"):
            wanted, number = _parts(_RECORDED, target)
            for scope in self._scopes(wanted, attempt, signed=False):
                for epoch in recorded_epochs(self._journal, scope, epoch=number):
                    yield from self._records(scope, epoch.index)
            return
        if target.startswith(agent_items.RUN_TARGET):
            yield from agent_items.of_run(self._journal, target.removeprefix(agent_items.RUN_TARGET))
            return
        if _RECORD.fullmatch(target):
            wanted, number = _parts(_RECORD, target)
            for scope in self._scopes(run if wanted is None else wanted, attempt, signed=False):
                yield from self._records(scope, number)
            return
        action = action_name(target)
        if action is not None:
            for scope in self._scopes(run, attempt, signed=False):
                yield from self._actions(scope, action)
            return
        asked = _DIGEST.fullmatch(target)
        if asked is None or len(asked["prefix"]) < LEAST_PREFIX:
            named = "epoch:RUN:N, recorded:RUN:N, record:RUN:INDEX, INDEX, an action's id or short form (rR:seqSEQ)"
            forms = f"{named}, or at least {LEAST_PREFIX} hex digits of a digest"
            raise ConfigError(f"{target}: evidence: it is none of {forms}")
        yield from self._anywhere(asked["prefix"], run, attempt)

    def _anywhere(self, prefix: str, run: str | None, attempt: int | None) -> Iterator[EvidenceItem]:
        """Yield everything of which a digest begins so, agents' records first."""
        of_agents = list(agent_items.with_digest(self._journal, prefix, run))
        yield from of_agents
        # A run that only agents tell of is none of the journal's own.
        for scope in () if of_agents and run is not None else self._scopes(run, attempt, signed=False):
            yield from self._with_digest(scope, prefix)

    def _with_digest(self, scope: Scope, prefix: str) -> Iterator[EvidenceItem]:
        for one in self._bundles(scope):
            if any(digest.startswith(prefix) for digest in one.digests.values()):
                yield one
        for index, record in enumerate(self._journal.evidence(*scope).records()):
            if any(digest.startswith(prefix) for digest in _record_digests(record.line).values()):
                yield _record_item(scope, index, record)

    def _bundles(self, scope: Scope) -> Iterator[EvidenceItem]:
        return (_bundle_item(scope, bundle) for bundle in self._journal.evidence(*scope).bundles())

    def _actions(self, scope: Scope, name: ActionName) -> Iterator[EvidenceItem]:
        for index, record in enumerate(self._journal.evidence(*scope).records()):
            if name.fits(*scope, record.line):
                yield _record_item(scope, index, record)

    def _records(self, scope: Scope, number: int) -> Iterator[EvidenceItem]:
        for index, record in enumerate(self._journal.evidence(*scope).records()):
            if index == number:
                yield _record_item(scope, index, record)
                return


@contextlib.contextmanager
def opened(uri: str | None = None, journal: str | Path | None = None) -> Iterator[Evidence]:
    """Give the evidence of a store's journal, opened for reading.

    Args:
        uri: Address of the store, which tells where its journal is.
        journal: Directory of the journal, where the address does not tell it.

    Raises:
        StoreError: There is no journal, or it is damaged.
    """
    directory = existing(config.journal_directory(config.store_uri(uri), journal), config.store_uri(uri))
    with Journal.open(directory, writable=False) as found:
        yield Evidence(found)


def known_publics(files: Sequence[str | Path] = (), trust_file: str | Path | None = None) -> dict[str, bytes]:
    """Return public keys by key id: those in the files, those of the trust file, and the user's own.

    Only to write them down and to check signatures with: whether a key is to be trusted is not asked here.

    Raises:
        InputError: A file holds no public key.
        ProvstoreError: A trust file was named and cannot be read.
    """
    from provstore.api.keys import own_keys, read_public_file
    from provstore.evidence import public_forms
    from provstore.evidence.trust.file import read

    found = [public for _, public in own_keys(lambda _: None)]
    try:
        stated = read(config.trust_file(trust_file)).trust
        found += [key.public for key in (*stated.root, *stated.keys) if key.is_known]
    except ProvstoreError:
        if trust_file is not None:
            raise
    found += [public_forms.read_public(read_public_file(Path(path)), str(path)) for path in files]
    return {fingerprint(public): public for public in found}


def _roles(keyid: str, trust_file: str | Path | None) -> set[str]:
    """Return the roles that the user's trust file gives a key; none without a trust file."""
    from provstore.api.keys import TrustPlace

    held = TrustPlace(trust_file).load()
    return set() if held is None else {key.role for key in (*held.root, *held.keys) if key.keyid == keyid}


def _row(bundle: BundleAt) -> BundleRow:
    try:
        envelope = dsse.parse(bundle.envelope)
        said = statement.parse(envelope.payload)
    except TrustError as error:
        nothing = (None,) * 8
        return BundleRow(*nothing, bundle.where, str(error))
    keyid, digest = envelope.signatures[0].keyid, hashlib.sha256(envelope.payload).hexdigest()
    return BundleRow(said.number, said.first, said.size, keyid, said.closed, said.wall, said.root, digest, bundle.where)


def _bundle_item(scope: Scope, bundle: BundleAt) -> EvidenceItem:
    row = _row(bundle)
    note = None if bundle.checkpoint is None else bundle.checkpoint.decode("utf-8", "backslashreplace")
    if row.fault is not None:
        digests = {"envelope_sha256": hashlib.sha256(bundle.envelope).hexdigest()}
        return EvidenceItem(
            BUNDLE, *scope, None, bundle.where, bundle.envelope, digests, None, checkpoint=note, fault=row.fault
        )
    envelope = dsse.parse(bundle.envelope)
    said = orjson.loads(envelope.payload)
    digests = {
        "payload_sha256": row.payload_sha256 or "",
        "subject_sha256": statement.parse(envelope.payload).subject_sha256,
    }
    sig = canonical.text_of(envelope.signatures[0].sig)
    return EvidenceItem(
        BUNDLE, *scope, row.epoch, bundle.where, bundle.envelope, digests, said, row.keyid, sig, checkpoint=note
    )


def _record_item(scope: Scope, index: int, record: RecordAt) -> EvidenceItem:
    said, fault = None, None
    try:
        said = canonical.parse(record.line)
    except InputError as error:
        fault = str(error)
    shown = said if isinstance(said, dict) else None
    return EvidenceItem(
        RECORD, *scope, index, record.where, record.line, _record_digests(record.line), shown, fault=fault
    )


def _record_digests(line: bytes) -> dict[str, str]:
    digests = {"sha256": hashlib.sha256(line).hexdigest(), "leaf": merkle.leaf_hash(line).hex()}
    if b'"kind":"epoch-bundle"' in line:
        with contextlib.suppress(TrustError):
            said = records.parse(line)
            if said["kind"] == EPOCH_BUNDLE:
                digests["recorded"] = epoch_bundles.digest_of(said)
    return digests


def _parts(form: re.Pattern[str], target: str) -> tuple[str | None, int]:
    asked = form.fullmatch(target)
    if asked is None:
        raise ConfigError(f"{target}: evidence: not of the form epoch:RUN:N")
    return asked["run"], int(asked["number"])


def _named(one: EvidenceItem) -> str:
    digest = next(iter(one.digests.values()))
    if one.kind == agent_items.AGENT_RECORD:
        return f"sha256:{digest[:16]}… of agent run {one.run} ({one.where})"
    form = f"epoch:{one.run}:{one.number}" if one.kind == BUNDLE else f"record:{one.run}:{one.number}"
    action = one.said.get("action_id") if one.said is not None else None
    named = form if action is None else f"{action} ({form})"
    return f"{named} (attempt {one.attempt}, sha256 {digest[:16]}…)"


def _chosen(epochs: Iterable[RecordedEpoch], epoch: int | None, mode: str | None) -> tuple[RecordedEpoch, ...]:
    return tuple(one for one in epochs if epoch in {None, one.epoch} and mode in {None, one.recording_mode})
