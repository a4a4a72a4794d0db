"""An org that no checkpoint here is about is a wrong option, and no sign of a change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provstore.errors import ConfigError
from provstore.evidence import checkpoint
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.evidence.trust.keys import TrustedKey
from provstore.evidence.verify.org import require_org
from tests.sealing import STORE, sealed, tree, trusting


def _under(org, *, run="run-1", attempt=0, key=None, signer=None, sizes=(2,)):
    """A run whose checkpoints are about an org, signed by its key or another."""
    made = sealed(sizes, key, run=run, attempt=attempt)
    for at, epoch in enumerate(made.epochs):
        origin = checkpoint.origin(org, STORE, run, attempt)
        note = checkpoint.make(origin, epoch.size, tree(made.lines[: epoch.size]), signer or made.key)
        made.signed[at] = replace(made.signed[at], checkpoint=note)
    return made


def test_the_org_of_the_checkpoints_is_accepted():
    made = _under("example.org")

    require_org([made.log()], trusting(made.key), "example.org")


def test_another_org_is_refused_with_the_one_that_is_here():
    made = _under("example.org")
    with pytest.raises(ConfigError) as refused:
        require_org([made.log()], trusting(made.key), "mistyped")

    assert refused.value.hint == "--org example.org"
    text = str(refused.value)
    assert f"expected origin mistyped/{STORE}/run-1/0, and what is signed here is example.org/{STORE}/run-1/0" in text


def test_one_checkpoint_of_the_org_is_enough_in_whatever_attempt_it_stands():
    key = PrivateKey.generate()
    first, second = _under("example.org", key=key), _under("given", key=key, attempt=1)

    require_org([first.log(), second.log()], trusting(key), "given")
    with pytest.raises(ConfigError, match="about another org, example"):
        require_org([first.log(), second.log()], trusting(key), "mistyped")


def test_the_first_org_that_is_signed_here_is_told():
    key = PrivateKey.generate()
    logs = [_under(org, key=key, attempt=n).log() for n, org in enumerate(("one.org", "two.org"))]
    with pytest.raises(ConfigError, match="about another org, one"):
        require_org(logs, trusting(key), "mistyped")


@pytest.mark.parametrize("what", ["stranger", "other run", "other attempt", "no checkpoint", "no note", "other form"])
def test_what_no_trusted_key_said_about_this_attempt_is_left_to_the_verification(what):
    made = _under("example.org", signer=PrivateKey.generate() if what == "stranger" else None)
    log = made.log()
    notes = {"no checkpoint": None, "no note": b"no note"}
    if what in notes:
        log.signed[0] = replace(log.signed[0], checkpoint=notes[what])
    if what == "other form":
        log.signed[0] = replace(log.signed[0], checkpoint=checkpoint.make("example.org/log", 2, bytes(32), made.key))
    log.run = "run-2" if what == "other run" else log.run
    log.attempt = 1 if what == "other attempt" else log.attempt

    require_org([log], trusting(made.key), "mistyped")


def test_a_checkpoint_that_cannot_be_read_hides_none_behind_it():
    made = _under("example.org", sizes=(2, 2))
    made.signed[0] = replace(made.signed[0], checkpoint=b"no note")
    with pytest.raises(ConfigError):
        require_org([made.log()], trusting(made.key), "mistyped")


@pytest.mark.parametrize(
    ("role", "runs", "counts"), [("log", "*", True), ("rank", "*", False), ("run", "run-2", False)]
)
def test_a_key_that_may_sign_checkpoints_of_the_run_counts(role, runs, counts):
    signer = PrivateKey.generate()
    made = _under("example.org", signer=signer)
    listed = TrustedKey(fingerprint(signer.public_key), "ed25519", signer.public_key, role, runs)
    trust = replace(trusting(made.key), keys=(listed,))
    if not counts:
        require_org([made.log()], trust, "mistyped")
        return
    with pytest.raises(ConfigError):
        require_org([made.log()], trust, "mistyped")
