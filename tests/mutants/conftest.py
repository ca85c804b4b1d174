"""The fixtures of the script tests, on one server, with scripts of the mutant's own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackq import scripts
from tests.delay.partition import Partition
from tests.delay.test_counts import watched
from tests.facts.facts import Mutant
from tests.faults.test_failover import executable, pair
from tests.membership.scripted import Group
from tests.queue.scripts.fixtures import BINARIES, own_client, own_space, space
from tests.queue.scripts.space import Space
from tests.servers import Survey
from tests.sharded.scripted import Scripted

__all__ = [
    "executable",
    "kind",
    "own_client",
    "own_space",
    "pair",
    "scripts_directory",
    "space",
    "watched",
]


@pytest.fixture
def kind(survey: Survey) -> str:
    """One plain server; a mistake shows on any."""
    kind = survey.first(tuple(BINARIES))
    if kind is None:
        pytest.skip("ACKQ_TEST_SERVERS names no plain server")
    return kind


@pytest.fixture
def partition(space: Space) -> Partition:
    """The key space of an empty delay queue."""
    return Partition(space.client, space.name, space.directory)


@pytest.fixture
def scripted(space: Space, token: str, scripts_directory: Path) -> Scripted:
    """The keys of a sharded queue that does not exist."""
    return Scripted(space.client, token, scripts_directory)


@pytest.fixture
def group(space: Space, token: str, scripts_directory: Path) -> Iterator[Group]:
    """The scripts of a consumer group that does not exist."""
    group = Group(space.client, token, scripts_directory)
    yield group
    space.client.unlink(*group.keys)


@pytest.fixture
def mutant(request: pytest.FixtureRequest) -> Mutant | None:
    """The planted mistake; None for the scripts as they are."""
    return getattr(request, "param", None)


@pytest.fixture
def scripts_directory(mutant: Mutant | None, tmp_path: Path) -> Path:
    """The scripts, in a copy if one of them is mutated."""
    if mutant is None:
        return scripts.directory()
    directory = tmp_path / "lua"
    shutil.copytree(scripts.directory(), directory, copy_function=os.symlink)
    mutant.plant(directory)
    return directory
