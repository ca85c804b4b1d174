"""One history: everything follows from the seed."""

import contextlib
import json
import os
import random
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ackq.core.io import outside
from tests import histories
from tests.products.product import Settings
from tests.subjects import Subjects

from .faults import Faults
from .journal import Journal
from .lives import consume, drain, operate, produce
from .products import PRODUCTS, SimulatedProduct
from .server import Server
from .world import Endless, Life, Process, World
from .writer import write

#: Seconds that the last consumer may take to drain the queue.
DRAINED_WITHIN = 30.0
#: Seconds between two looks for processes that have died.
RESTART = 0.3


@dataclass(frozen=True)
class Result:
    """One history, and what the checker says about it."""

    seed: int
    product: str
    history: bytes
    verdict: histories.Verdict
    struck: dict[str, str]  #: the faults, by request

    @property
    def subjects(self) -> Subjects:
        """What was there: the faults, what was done with the product, what rules compared."""
        found = Subjects(f"fault: {kind}" for kind in self.struck.values())
        for verb in re.findall(rb'"do":"([a-z ]+)"', self.history):
            found.saw(f"{self.product}: {verb.decode()}")
        found.update({f"rule: {rule}": n for rule, n in self.verdict.subjects.items()})
        return found

    @property
    def broken(self) -> frozenset[str]:
        """The rules that were broken."""
        return frozenset(self.verdict.violations)


def simulate(
    server: Server,
    seed: int,
    folder: Path,
    only: Collection[str] | None = None,
    before_each: Callable[[int], object] | None = None,
) -> Result:
    """Run and judge one history.

    Args:
        server: is emptied.
        seed: decides everything.
        folder: where the checker finds the history; an earlier history is deleted.
        only: the requests, such as "consumer-0.1:7", that meet their faults. Defaults to None, all.
        before_each: called with the number of each request before the server applies it: sabotage.
    """
    product = PRODUCTS[seed % len(PRODUCTS)]
    draw = random.Random(f"history {seed}")
    settings = product.draw_settings(draw)
    world = World(server, Faults(seed, product.sets_clock, only), before_each)
    with _chance(seed), product.environment(world):
        broken = _Play(world, product, settings, seed, draw).perform()
    rules = {"lease": product.lease, **product.rules, **settings}
    verdict = _judge(world.journal.text, rules, folder)
    for rule, words in broken:
        verdict.broke(rule, words)
    return Result(seed, product.__name__, world.journal.text, verdict, world.faults.struck)


#: What a process does: with a product, and writing a history, as this name, until some time.
_Kind = Callable[[SimulatedProduct, Journal, str, random.Random, float], Coroutine[Any, Any, None]]


class _Play:
    """The processes of one history."""

    def __init__(
        self,
        world: World,
        product: type[SimulatedProduct],
        settings: Settings,
        seed: int,
        draw: random.Random,
    ) -> None:
        self._world = world
        self._product = product
        self._settings = settings
        self._seed = seed
        self._draw = draw
        self._processes: dict[str, Process] = {}
        self._births: Counter[str] = Counter()

    def perform(self) -> list[tuple[str, str]]:
        """Let processes live, and then drain what is left; return what went wrong besides."""
        world, draw = self._world, self._draw
        world.server.begin(0)
        try:
            product = self._product(self._settings)
            self._be_alone(product.prepare())
            for n in range(draw.randint(1, 2)):
                kind = write if self._product.is_staged else produce
                self._keep_alive(f"producer-{n}", kind)
            for n in range(draw.randint(1, 3)):
                self._keep_alive(f"consumer-{n}", consume)
            if self._product.is_operated and draw.random() < 0.5:
                self._keep_alive("operator-0", operate)
            world.faults.are_on = True
            world.run(self._product.chaos)
            world.faults.are_on = False
            world.run()
            self._be_alone(
                drain(product, world.journal, draw, DRAINED_WITHIN), product.background()
            )
        except Endless as error:
            return [("endless", str(error))]
        except Exception as error:
            return [("error", f"{type(error).__name__}: {error}")]
        return []

    def _be_alone(self, life: Life, beside: Life | None = None) -> None:
        Process(self._world, "alone", life, beside)
        self._world.run()

    def _keep_alive(self, role: str, kind: _Kind) -> None:
        """Start a process, now and whenever it has died."""
        world = self._world
        if role in self._processes and self._processes[role].is_alive:
            world.later(RESTART, partial(self._keep_alive, role, kind))
        elif world.now < self._product.chaos * 1e6:
            name = f"{role}.{self._births[role]}"
            self._births[role] += 1
            draw = random.Random(f"{self._seed} {name}")
            product = self._product(self._settings)
            life = self._life(kind, product, name, draw)
            self._processes[role] = Process(world, name, life, product.background())
            world.later(RESTART, partial(self._keep_alive, role, kind))

    async def _life(
        self, kind: _Kind, product: SimulatedProduct, name: str, draw: random.Random
    ) -> None:
        log = self._world.journal
        await kind(product, log, name, draw, product.chaos)
        await product.attempt(product.close(), draw, log)


@contextlib.contextmanager
def _chance(seed: int) -> Iterator[None]:
    """Let everything that ackq draws follow from the seed."""
    draw = random.Random(f"ackq {seed}")
    urandom, token_hex, state = os.urandom, secrets.token_hex, random.getstate()
    random.seed(f"ackq's own {seed}")
    outside._drawn.clear()
    os.urandom = draw.randbytes
    secrets.token_hex = lambda nbytes=None: draw.randbytes(nbytes or 32).hex()
    try:
        yield
    finally:
        os.urandom, secrets.token_hex = urandom, token_hex
        random.setstate(state)
        outside._drawn.clear()


def _judge(history: bytes, rules: dict[str, Any], folder: Path) -> histories.Verdict:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "history").mkdir(parents=True)
    settings = json.dumps({"drain_within": DRAINED_WITHIN, **rules})
    (folder / "settings.json").write_text(settings)
    (folder / "history" / "simulation.jsonl").write_bytes(history)
    return histories.check(folder)
