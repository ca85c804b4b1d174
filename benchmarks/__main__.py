"""``python -m benchmarks``: run benchmarks, compare two runs."""

import sys
from collections.abc import Callable, Sequence

from benchmarks import commands
from benchmarks.registry import BENCHMARKS

COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "all": commands.run_all,
    "compare": commands.compare,
}
USAGE = f"""\
usage: python -m benchmarks BENCHMARK [--help] [options]
       python -m benchmarks all [--quick] [--only NAME ...]
       python -m benchmarks compare OLD NEW

benchmarks: {", ".join(BENCHMARKS)}

Each starts a redis-server of its own on the loopback interface; see benchmarks/README.md."""


def main(arguments: Sequence[str]) -> None:
    """Run the command that the first argument names."""
    name, *rest = arguments or ["--help"]
    if name in ("-h", "--help"):
        print(USAGE)
    elif name in COMMANDS:
        COMMANDS[name](rest)
    elif name in BENCHMARKS:
        commands.run(name, rest)
    else:
        print(USAGE, file=sys.stderr)
        sys.exit(f"there is no benchmark {name!r}")


if __name__ == "__main__":
    main(sys.argv[1:])
