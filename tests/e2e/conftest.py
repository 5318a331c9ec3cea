"""One sandbox for the whole session, with the fake engine; stacks follow one another on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.clusters import inventory
from tests.e2e.stack import Stack
from tests.e2e.workplace import Workplace, workplace


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """A running sandbox; at the end of the session nothing of it may run, and no port of it be taken."""
    with workplace(tmp_path_factory.mktemp("e2e")) as made:
        made.sandbox("up", "--engine", "fake")
        yield made
        made.sandbox("down")
        assert (made.processes(), made.taken_ports()) == ([], [])


@pytest.fixture(scope="session")
def untouched(place: Workplace) -> set[str]:
    """Every object of both clusters before a stack was made on them."""
    return inventory(place.layout)


@pytest.fixture(scope="session")
def stack(place: Workplace, untouched: set[str]) -> Stack:
    """Stack `local`; tests change its configuration and bring it up, so each finds what the one before has left."""
    return Stack(place)
