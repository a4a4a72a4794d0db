"""Verifying files of agent evidence: one verdict on each axis of each record, and no sum of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from provstore import config
from provstore.api.believing import read_public_key
from provstore.errors import EXIT_NO, EXIT_OK, EXIT_UNDECIDED, ConfigError, InputError
from provstore.evidence.aep import agent_keys, contract, judge, key_maps
from provstore.evidence.keys import fingerprint
from provstore.evidence.trust import file as trust_files
from provstore.evidence.trust.fields import moment, now
from provstore.evidence.trust.keys import Trust
from provstore.model.aep import Axis, ContainerVerdict, RecordVerdict
from provstore.sources import aep

SCHEMA = "provstore-agent-verification/1"
_HEAD = 64 * 1024


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """What was found of one file of agent evidence."""

    path: Path
    verdict: ContainerVerdict

    @property
    def exit_code(self) -> int:
        """1 something is wrong, 3 something is unproven or was not evaluated, 0 neither."""
        codes = {_code(one) for one in self.verdict.records}
        codes |= {_code_of(one) for one in (self.verdict.container, *self._chains())}
        codes |= {EXIT_UNDECIDED} if self.verdict.problems or not self.verdict.records else set()
        return next((code for code in (EXIT_NO, EXIT_UNDECIDED) if code in codes), EXIT_OK)

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "path": str(self.path),
            "kind": self.verdict.kind,
            "chain": self.verdict.chain.to_dict(),
            "chains": {run: axis.to_dict() for run, axis in self.verdict.chains.items()},
            "container": self.verdict.container.to_dict(),
            "records": [_record(one) for one in self.verdict.records],
            "problems": list(self.verdict.problems),
            "exit_code": self.exit_code,
        }

    def _chains(self) -> Iterator[Axis]:
        """Yield the chains that decide: one record without a link leaves nothing open."""
        whole, runs = self.verdict.chain, self.verdict.chains.values()
        for axis in (whole,) if whole.status == "intact" or not runs else runs:
            if axis.status != "not-present" or axis.details.get("records") != 1:
                yield axis


def is_agent_file(path: Path) -> bool:
    """Return whether a file is meant as agent evidence, sound or not."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return aep.recognises(file.read(_HEAD))
    except OSError:
        return False


def verify_agent_files(
    *paths: str | Path,
    keys: Sequence[str] = (),
    public_keys: Sequence[str | Path] = (),
    trust_file: str | Path | None = None,
    pin: str | None = None,
    first_use: bool = False,
    at: str | None = None,
    check_legacy: bool = False,
) -> list[AgentAnswer]:
    """Return what can be known of files of agent evidence.

    Args:
        paths: Records, lists or lines of them, bundles, ledgers.
        keys: ``ID=HEX`` or ``ID=FILE``: the public key that signatures name by that id; or a file that holds a JSON
            object of such ids to public keys.
        public_keys: Files of public keys that signatures name by their fingerprint, instead of a trust file.
        trust_file: Its keys of the role ``agent`` count by alias, those of the role ``run`` by fingerprint; your own
            trust file when not given, if there is one.
        pin: Root key of a trust file that is new here.
        first_use: Believe a trust file that is new here.
        at: The moment at which keys are judged, ISO 8601 in UTC.
        check_legacy: Check signatures of retired schemes too; their status stays the same.

    Raises:
        InputError: A file cannot be read, or holds no agent evidence, or no keys.
        NotUnderstoodError: A file is larger than is looked at.
        ConfigError: A key is given in none of these ways, or two keys for one id.
        TrustError: The trust file does not hold, or a key is not safe to trust.
    """
    when = now() if at is None else moment(at, "at")
    given = _given(keys, public_keys)
    trust = None if public_keys else _trust(trust_file, pin, first_use=first_use, at=at)
    known = agent_keys.agent_keys(trust, given)
    answers = []
    for path in map(Path, paths):
        verdict = judge(aep.read(path, name=str(path)), known, check_legacy=check_legacy)
        answers.append(AgentAnswer(path, agent_keys.with_trust(verdict, trust, when)))
    return answers


def known_keys(keys: Sequence[str] = (), trust_file: str | Path | None = None) -> tuple[dict[str, bytes], Trust | None]:
    """Return the public keys by the ids that signatures name, and the trust file that they partly come from.

    Args:
        keys: See :func:`verify_agent_files`.
        trust_file: See :func:`verify_agent_files`.

    Raises:
        InputError: There is no such trust file, or a file of keys is none.
        ConfigError: A key is given in none of these ways, or two keys for one id.
        TrustError: The trust file does not hold, or a key is not safe to trust.
    """
    given = _given(keys, ())
    trust = _trust(trust_file, None, first_use=False, at=None)
    return agent_keys.agent_keys(trust, given), trust


def _given(keys: Sequence[str], public_keys: Sequence[str | Path]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path in public_keys:
        public = read_public_key(Path(path))
        found[fingerprint(public)] = public
    for text in keys:
        for name, public in _named(text).items():
            if found.setdefault(name, public) != public:
                raise ConfigError(f"{name[:60]!a}: --agent-key: two keys are given for this id")
    return found


def _named(text: str) -> dict[str, bytes]:
    """Return the public keys that one ``--agent-key`` gives, by their ids."""
    name, mark, key = text.partition("=")
    if name and key:
        if Path(key).is_file():
            return {name: read_public_key(Path(key))}
        # A path may hold the sign, too.
        if agent_keys.is_hex(key) or not Path(text).is_file():
            return {name: agent_keys.parse_public(key, f"--agent-key {name}")}
    elif mark or not Path(text).exists():
        raise ConfigError(f"{text[:60]!a}: --agent-key: need ID=HEX, ID=FILE, or a file of a JSON object, id to key")
    return key_maps.read(Path(text))


def _trust(path: str | Path | None, pin: str | None, *, first_use: bool, at: str | None) -> Trust | None:
    found = config.trust_file(path)
    if not found.exists():
        if path is not None:
            raise InputError(f"{found}: trust: there is no such file")
        return None
    return trust_files.load(found, pin=pin, first_use=first_use, at=at)


def _record(one: RecordVerdict) -> dict[str, object]:
    return {
        "index": one.index,
        "sha256": one.sha256,
        "run_id": one.run_id,
        "axes": {name: axis.to_dict() for name, axis in one.axes.items()},
        "findings": list(one.findings),
        "verifier_result": contract.envelope(one),
    }


_WRONG = {"fail", "invalid", "binding-mismatch", "broken"}
_OPEN = {"unsigned", "unsupported-legacy", "partial", "orphaned", "not-present"}
_ASKED = ("structural", "semantic", "authenticity")


def _code(one: RecordVerdict) -> int:
    if one.findings:
        return EXIT_NO
    codes = {_code_of(one.axes[name]) for name in _ASKED}
    # Kinds without rules of meaning leave nothing open there.
    if not (one.axes["structural"].evaluated and one.axes["authenticity"].evaluated):
        codes.add(EXIT_UNDECIDED)
    return next((code for code in (EXIT_NO, EXIT_UNDECIDED) if code in codes), EXIT_OK)


def _code_of(axis: Axis) -> int:
    if axis.status in _WRONG:
        return EXIT_NO
    return EXIT_UNDECIDED if axis.status in _OPEN else EXIT_OK
