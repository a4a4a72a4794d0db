"""The digest of generator states that is found anew only where one has moved."""

from __future__ import annotations

import random
import sys

import pytest


def test_the_digest_is_that_of_the_whole_blob_after_every_draw_of_every_generator() -> None:
    torch, numpy = pytest.importorskip("torch"), pytest.importorskip("numpy")
    from provstore.capture.recording.rng_states import RngAnchor, digest_of, rng_blob

    anchor, seen = RngAnchor(torch), []
    # A second normal number of numpy's is left over from the first: its words do not move then.
    draws = (lambda: None, random.random, numpy.random.normal, numpy.random.normal, lambda: torch.rand(1))
    for draw in draws:
        draw()
        assert anchor.digest() == anchor.digest() == digest_of(rng_blob(torch)[0])
        seen.append(anchor.digest())

    assert len(set(seen)) == len(draws)


def test_without_numpy_the_digest_is_found_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from provstore.capture.recording.rng_states import RngAnchor, digest_of, rng_blob

    monkeypatch.delitem(sys.modules, "numpy", raising=False)
    anchor = RngAnchor(torch)
    first = anchor.digest()
    torch.rand(1)

    assert anchor.digest() == digest_of(rng_blob(torch)[0]) != first
