"""A minute's worth of histories in short: what the simulation promises, and that it can fail."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.campaign.sabotage import Sabotage
from tests.servers.target import Absent

from .faults import KINDS
from .planted import OTHERS, SHARED, find, planted
from .products import PRODUCTS
from .run import simulate
from .server import Server
from .shrink import shrink

#: Histories that make test looks at; `python -m tests.simulation` takes its time.
HISTORIES = 18
#: One with many faults.
SEED = 7
#: Planted faults that are quickly found; make test-campaign looks for all.
FEW = (
    "commit is never refused",
    "a message is stolen",
    "cancel cancels nothing",
    "the dead keep their partitions",
    "a batch is committed twice",
    "a commit forgets a list",
    "a dead letter does not stop its group",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    try:
        started = Server(tmp_path_factory.mktemp("simulation"))
    except Absent as reason:
        pytest.skip(str(reason))
    with started:
        yield started


@pytest.mark.timeout(180)
def test_no_history_breaks_a_rule(server: Server, tmp_path: Path) -> None:
    struck, redelivered, products = set(), 0, set()
    for seed in range(HISTORIES):
        found = simulate(server, seed, tmp_path / "history")
        assert found.verdict.sound, f"python -m tests.simulation --seed {seed}: {found.verdict}"
        struck |= set(found.struck.values())
        redelivered += found.verdict.redelivered
        products.add(found.product)
    assert len(struck) > len(KINDS) / 2
    assert redelivered > HISTORIES
    assert products == {each.__name__ for each in PRODUCTS}


def test_a_seed_writes_the_same_history_again(server: Server, tmp_path: Path) -> None:
    """Byte for byte, in another process with another hash seed and another server too."""
    seed = SEED
    found = simulate(server, seed, tmp_path / "history")
    assert len(found.struck) > 5
    history = found.history
    replay = [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--history"]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    printed = subprocess.run(replay, env=environment, capture_output=True, check=True).stdout
    assert printed.startswith(history)
    assert simulate(server, seed + len(PRODUCTS), tmp_path / "history").history != history


def test_a_failure_is_shrunk_to_few_faults(server: Server, tmp_path: Path) -> None:
    fault = next(each for each in OTHERS if each.name == "a resent push stores again")
    # From here on, many faults strike before one loses the reply to a push.
    found = find(fault, server, tmp_path / "history", range(486, 700))
    assert found is not None
    assert not callable(fault.how)
    with planted(fault.how):
        shrunk = shrink(server, found, tmp_path / "history")
        assert shrunk.broken & found.broken
        assert len(shrunk.struck) == 1 < len(found.struck)
        again = simulate(server, found.seed, tmp_path / "history", only=shrunk.struck)
        assert again.history == shrunk.history


def _cases() -> list[object]:
    slow = pytest.mark.campaign
    return [
        pytest.param(each, id=each.name, marks=() if each.name in FEW else slow)
        for each in (*SHARED, *OTHERS)
    ]


def test_every_planted_fault_fits_its_script() -> None:
    for each in (*SHARED, *OTHERS):
        if not callable(each.how):
            with planted(each.how):
                pass


@pytest.mark.timeout(180)
@pytest.mark.parametrize("sabotage", _cases())
def test_a_planted_fault_is_found(sabotage: Sabotage, server: Server, tmp_path: Path) -> None:
    assert find(sabotage, server, tmp_path / "history") is not None
