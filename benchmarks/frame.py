"""The interface and the options of a benchmark.

A benchmark is a module with the members of `Benchmark`, and a line in `benchmarks.registry`:

    PURPOSE = "Push, pop and ack."            # shown by --help

    def options(options: Options) -> None:    # its own options
        options.size("rounds", 12, quick=4, smoke=2, help="of each contestant")

    def run(settings: Settings) -> Result:    # measure; progress goes to stderr
        with target(settings.url) as server:
            result = Result("cycle", facts(server, settings))
            ...
        return result

All benchmarks also have ``--url``, ``--seed``, ``--quick``, ``--smoke`` and ``--json``.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import redis

from ackq.bench.circumstances import circumstances, describe
from ackq.bench.figures import Result
from ackq.bench.messages import Messages
from ackq.bench.rounds import Player, contest, duel, measures_of
from benchmarks.checkout import commit
from benchmarks.servers import Target

Settings = argparse.Namespace
#: Options that do not affect the figures, or that name a file or server.
PLACES = {"url", "json"}
Size = float | tuple[float, ...]


class Options(argparse.ArgumentParser):
    """A parser whose sizes have three defaults: for a full, a quick and a smoke run."""

    def __init__(self, name: str, purpose: str) -> None:
        super().__init__(prog=f"python -m benchmarks {name}", description=purpose)
        self._sizes: dict[str, dict[str, Any]] = {}
        self.add_argument("--url", help="measure this server; default: start one")
        self.add_argument("--seed", type=int, default=1, help="seed of the random data; default: 1")
        add_output(self)
        add_pace(self)

    def size(
        self,
        name: str,
        full: Size,
        *,
        quick: Size | None = None,
        smoke: Size,
        help: str,
        metavar: str = "N",
    ) -> None:
        """Add a number, or several: rounds, seconds, messages. A user's value overrides it.

        A quick run has the full size if ``quick`` is not given.
        """
        quick = full if quick is None else quick
        several = isinstance(full, tuple)
        self._sizes[name.replace("-", "_")] = {"full": full, "quick": quick, "smoke": smoke}
        self.add_argument(
            f"--{name}",
            metavar=metavar,
            help=f"{help}; default: {_shown(full)}, quick: {_shown(quick)}",
            nargs="+" if several else None,
            type=type(full[0] if isinstance(full, tuple) else full),
        )

    def settings(self, arguments: Sequence[str]) -> Settings:
        """Return the settings, with every size filled in."""
        found = self.parse_args(arguments)
        for name, sizes in self._sizes.items():
            if getattr(found, name) is None:
                setattr(found, name, sizes[found.pace])
        return found


class Benchmark(Protocol):
    """The members of a benchmark's module."""

    PURPOSE: str

    def options(self, options: Options, /) -> None:
        """Add the options of this benchmark."""

    def run(self, settings: Settings, /) -> Result:
        """Measure."""


def add_pace(parser: argparse.ArgumentParser) -> None:
    """Add the options for the length of a run."""
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument(
        "--quick",
        dest="pace",
        action="store_const",
        const="quick",
        default="full",
        help="fewer rounds and smaller sizes",
    )
    pace.add_argument(
        "--smoke",
        dest="pace",
        action="store_const",
        const="smoke",
        help="tiny sizes, to see that it runs; measures nothing",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the option for the output."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")


def facts(server: Target, settings: Settings) -> dict[str, Any]:
    """Return the circumstances of a run, and print them."""
    asked = {name: value for name, value in vars(settings).items() if name not in PLACES}
    with redis.Redis.from_url(server.url) as client:
        found = circumstances(client, server.description, asked)
    if code := commit():
        found["versions"]["commit"] = code
    print(describe(found), file=sys.stderr, flush=True)
    return found


def compare(
    result: Result,
    case: str,
    makers: Mapping[str, Callable[[str, str, Messages, int], Player]],
    url: str,
    batch: int,
    pairs: Iterable[tuple[str, str]],
    settings: Settings,
    *,
    goal: float | None = None,
    prefix: str = "ackq-benchmark:",
) -> None:
    """Measure contestants in turns, and add their figures and the ratios of the pairs."""
    rounds = contest(
        makers,
        url,
        batch,
        seed=settings.seed,
        rounds=settings.rounds,
        seconds=settings.seconds,
        prefix=prefix,
    )
    result.measures += measures_of(case, rounds)
    for one, other in pairs:
        result.ratios += duel(case, rounds, one, other, goal)


def progress(text: str) -> None:
    """Report the progress of a run."""
    print(text, file=sys.stderr, flush=True)


def _shown(size: Size) -> str:
    return " ".join(f"{each:g}" for each in (size if isinstance(size, tuple) else (size,)))
