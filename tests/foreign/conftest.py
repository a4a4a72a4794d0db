"""A missing foreign tool is a counted skip with its reason; where tests decide about a change, some must be there."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.foreign import tools


def _deciding() -> bool:
    return os.environ.get("CI", "").lower() not in {"", "0", "false"}


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Turn a missing tool into a skip, or into a failure where it may not be missing."""
    try:
        return (yield)
    except tools.MissingError as error:
        missing = error
    _give_up(missing)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(request: pytest.FixtureRequest) -> Iterator[None]:
    """Do the same for a tool that a fixture looks for."""
    try:
        return (yield)
    except tools.MissingError as error:
        missing = error
    _give_up(missing)


def _give_up(error: tools.MissingError) -> None:
    if _deciding() and error.tool in tools.MANDATORY:
        pytest.fail(f"{error} (it may not be missing here)", pytrace=False)
    pytest.skip(str(error))
