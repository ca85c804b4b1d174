"""The fixtures of the script tests, on one server, with scripts of the mutant's own."""

# pytest finds fixtures by their names.
# ruff: noqa: F401, F811

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackq import scripts
from tests import waiting
from tests.delay.partition import Partition
from tests.delay.test_counts import watched
from tests.facts.mistakes import Mutant
from tests.faults.test_failover import executable, pair
from tests.queue.scripts.fixtures import BINARIES, own_client, own_space, space
from tests.queue.scripts.space import Space
from tests.rsmq.conftest import make_rsmq
from tests.servers import Fleet, Survey, Target
from tests.sharded.scripted import Scripted
from tests.staging.conftest import make_topic_writer, opened
from tests.staging.test_scripts import slots
from tests.topic.conftest import keys, make_topic, topic
from tests.worker.test_list_scripts import call
from tests.worker.test_scripts import tick


@pytest.fixture
def kind(survey: Survey) -> str:
    """One plain server; a mistake shows on any."""
    kind = survey.first(tuple(BINARIES))
    if kind is None:
        pytest.skip("ACKQ_TEST_SERVERS names no plain server")
    return kind


@pytest.fixture
def target(kind: str, fleet: Fleet) -> Target:
    """The server, for tests that run on others elsewhere."""
    return fleet.get(kind)


@pytest.fixture
def flavour() -> str:
    """A script is the same for both."""
    return "sync"


@pytest.fixture
def partitions() -> None:
    """A delay queue without partitions."""


@pytest.fixture
def partition(space: Space) -> Partition:
    """The key space of an empty delay queue."""
    return Partition(space.client, space.name, space.directory)


@pytest.fixture
def scripted(space: Space, token: str, scripts_directory: Path) -> Scripted:
    """The keys of a sharded queue that does not exist."""
    return Scripted(space.client, token, scripts_directory)


@pytest.fixture
def mutant(request: pytest.FixtureRequest) -> Mutant | None:
    """The planted mistake; None for the scripts as they are."""
    return getattr(request, "param", None)


@pytest.fixture(scope="session")
def linked_scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a link to each script. Making one for each test would take a third of it."""
    directory = tmp_path_factory.mktemp("mutants") / "lua"
    shutil.copytree(scripts.directory(), directory, copy_function=os.symlink)
    return directory


@pytest.fixture
def scripts_directory(
    mutant: Mutant | None, linked_scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The scripts, one of them mutated if the test has a mutant, which clients load, too."""
    if mutant is None:
        yield scripts.directory()
        return
    directory, sound = linked_scripts, scripts.directory()
    mutant.plant(directory)
    monkeypatch.setattr(scripts, "directory", lambda: directory)
    # Most mistakes never come right.
    monkeypatch.setattr(waiting.wait_until, "__defaults__", (2,))
    scripts.load.cache_clear()
    yield directory
    monkeypatch.undo()
    scripts.load.cache_clear()
    changed = directory / f"{mutant.script}.lua"
    changed.unlink()
    changed.symlink_to(sound / f"{mutant.script}.lua")
