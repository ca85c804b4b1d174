"""``make tests-of FILE:LINE``: the tests that run a line of Python or of a script.

Those that run the least else come first.
"""

import sys
from typing import Any

from .places import ROOT, places
from .recording import recorded
from .scripts import places as blocks


def running(place: str, tests: dict[str, dict[str, Any]]) -> list[str]:
    """Return the tests that run a statement, or a block of a script."""
    found = [name for name, test in tests.items() if place in test["places"]]
    return sorted(found, key=lambda name: len(tests[name]["places"]))


def main(wanted: str) -> str | None:
    """Print the tests, or return what is wrong."""
    file, _, line = wanted.rpartition(":")
    path = ROOT / file
    if not (path.is_file() and line.isdigit()):
        return "name a line, such as: make tests-of ackq/queue/take.py:120"
    is_lua = path.suffix == ".lua"
    place = (blocks if is_lua else places)(path.resolve()).get(int(line))
    if place is None:
        return f"{wanted} is no statement of a function"
    found = running(place, recorded(of="lua" if is_lua else "python"))
    print(*found, sep="\n")
    return None if found else f"no recorded test runs {place}"


if __name__ == "__main__":
    sys.exit(main(" ".join(sys.argv[1:])))
