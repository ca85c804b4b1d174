"""``python -m tests.simulation``: simulate histories, and shrink those that break a rule."""

import argparse
import itertools
import json
import logging
import random
import shlex
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.campaign.run import environment
from tests.histories.rules import JUDGED
from tests.subjects import Subjects

from .faults import KINDS
from .planted import OTHERS, SHARED, find
from .products import PRODUCTS
from .run import Result, simulate
from .server import Server
from .shrink import shrink

#: Histories in which every fault, verb and rule must have been there.
ENOUGH = 1000


def main() -> int:
    """Simulate; return 1 if a rule was broken, or a planted fault was missed."""
    options = _options()
    logging.getLogger("ackq").addHandler(logging.NullHandler())  # of what faults cause
    with tempfile.TemporaryDirectory() as name, Server(Path(name)) as server:
        folder = Path(name) / "history"
        if options.sabotage:
            return _sabotage(server, folder, options.into)
        if options.seed is not None:
            return _replay(server, options, folder)
        begin = random.SystemRandom().randrange(1 << 40) if options.begin is None else options.begin
        print(f"seeds from {begin} on", flush=True)
        until = time.monotonic() + options.seconds
        seeds = itertools.takewhile(lambda _: time.monotonic() < until, itertools.count(begin))
        return _search(server, seeds, folder, begin, options.into)


def _search(
    server: Server, seeds: Iterable[int], folder: Path, first: int, into: Path | None
) -> int:
    begin, used = time.monotonic(), time.process_time() + server.processor_time
    histories, broken = 0, 0
    faults: Counter[str] = Counter()
    subjects = Subjects()
    products: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for seed in seeds:
        found = simulate(server, seed, folder)
        histories += 1
        faults.update(found.struck.values())
        products[found.product].update(
            histories=1,
            faults=len(found.struck),
            messages=found.verdict.pushed,
            redelivered=found.verdict.redelivered,
            broken=len(found.broken),
        )
        subjects.update(found.subjects)
        if found.broken:
            broken += 1
            _explain(shrink(server, found, folder))
    seconds = time.monotonic() - begin
    used = time.process_time() + server.processor_time - used
    _store(
        into,
        "histories",
        seed=first,
        seconds=round(seconds),
        products=products,
        faults=faults,
        processor=round(used),
    )
    struck = ", ".join(f"{kind} {times}" for kind, times in sorted(faults.items())) or "none"
    print(
        f"{histories} histories in {seconds:.0f} s and {used:.0f} s of a processor;"
        f" {broken} broke a rule\n  faults: {struck}"
    )
    print(f"  seen: {subjects}")
    missing = subjects.missing(expected()) if histories >= ENOUGH else []
    if missing:
        print(f"  never seen: {', '.join(missing)}")
    return bool(broken or missing)


def expected() -> Iterator[str]:
    """Yield what must be there in enough histories."""
    yield from (f"fault: {kind}" for kind in KINDS)
    yield from (f"rule: {rule}" for rule in JUDGED)
    for product in PRODUCTS:
        verbs = {"ack" if verb == "fused" else verb for verb in product.verbs}
        verbs.discard("forget")  # which is to do nothing
        yield from (f"{product.__name__}: {verb}" for verb in (*verbs, *product.chosen))


def _replay(server: Server, options: argparse.Namespace, folder: Path) -> int:
    only = None if options.only is None else options.only.split(",")
    found = simulate(server, options.seed, folder, only)
    if options.history:
        sys.stdout.buffer.write(found.history)
    _explain(found)
    return bool(found.broken)


def _explain(found: Result) -> None:
    command = ["python", "-m", "tests.simulation", "--seed", str(found.seed)]
    if found.broken:
        command += ["--only", ",".join(found.struck)]
    struck = "".join(f"\n    {request} {kind}" for request, kind in found.struck.items())
    print(
        f"{found.product}, seed {found.seed}, commit {environment()['commit']}: {found.verdict}"
        f"{struck}\n  repeat it with: {shlex.join(command)} --history",
        flush=True,
    )


def _sabotage(server: Server, folder: Path, into: Path | None) -> int:
    """Plant each fault; return 1 unless all were found."""
    missed: list[str] = []
    for sabotage in (*SHARED, *OTHERS):
        found = find(sabotage, server, folder)
        where = "MISSED" if found is None else f"found, seed {found.seed}:"
        print(where, sabotage.name, flush=True)
        missed += [] if found is not None else [sabotage.name]
    _store(into, "planted", planted=len(SHARED) + len(OTHERS), missed=missed)
    return bool(missed)


def _store(into: Path | None, what: str, **result: object) -> None:
    """Keep a result for docs/campaign.md."""
    if into is not None:
        into.mkdir(parents=True, exist_ok=True)
        (into / f"{what}.json").write_text(json.dumps({**environment(), **result}) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.simulation", description=__doc__)
    parser.add_argument(
        "--for",
        dest="seconds",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long to go on. Defaults to 60",
    )
    parser.add_argument(
        "--begin", type=int, metavar="SEED", help="the first seed. Defaults to a random one"
    )
    parser.add_argument("--seed", type=int, help="replay this history, and end")
    parser.add_argument(
        "--only", metavar="REQUESTS", help="with --seed: let only these requests meet their faults"
    )
    parser.add_argument("--history", action="store_true", help="with --seed: print all events")
    parser.add_argument(
        "--sabotage", action="store_true", help="plant faults that must be found, and end"
    )
    parser.add_argument(
        "--into",
        type=Path,
        metavar="FOLDER",
        help="store the result, as in docs/_campaign/simulation",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
