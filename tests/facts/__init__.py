"""The facts of every script: see `tests.facts.facts`."""

import importlib
from functools import cache

from ackq import scripts
from tests.facts.facts import Case, Facts


def of(script: str) -> Facts:
    """Return the facts of a script.

    Raises:
        LookupError: there are none. The text says where to write them.
    """
    folder, _, _ = script.rpartition("/")
    for place in filter(None, (script, folder)):
        name = f"{__name__}.{place.replace('/', '.')}"
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            continue
        for value in vars(module).values():
            if isinstance(value, Facts) and value.script == script:
                return value
    raise LookupError(
        f"lua/{script}.lua has no facts: write tests/facts/{script}.py, with"
        f" FACTS = Facts({script!r}, calls=..., mistakes=...), as tests/facts/facts.py shows"
    )


@cache
def every() -> tuple[Facts, ...]:
    """Return the facts of all scripts that have them. A test fails for the others."""
    found = []
    for script in scripts.names():
        try:
            found.append(of(script))
        except LookupError:
            continue
    return tuple(found)


def cases() -> list[Case]:
    """Return the worst cases of all scripts."""
    return [case for each in every() for case in each.cases]
