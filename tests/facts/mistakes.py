"""Mistakes to plant in the scripts, and the text that lists them beside the tests that notice them.

`tests.mutation` draws mistakes by the thousand: other operators, constants and operands, statements
left out. A mistake is listed only if none of those at its place is one that its test notices.

A test is named at the start of a line. Below it are the mistakes that it must notice: what each
does, the text to replace, which occurs once in the script, and what replaces it::

    test_nack.test_a_release_does_not_count
      a release counts
      - count = count - 1 + charge
    faults.test_failover.test_a_slot_moves
      given: settle="release", count=3
      reads too late (error)
      - local noted = redis.call('HGET', receives, key)
      + local noted = false

A test is named by its module and name in ``tests/queue/scripts``, or below ``tests``. ``given:``
has the values of its parameters for all mistakes that follow, or names them (`Facts.given`).
``(error)`` marks a mistake that shows as an error of the script or of a client. A mistake without
a text to replace is one of `tests.facts.parts`.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ackq.scripts import compose

ERROR = " (error)"


@dataclass(frozen=True)
class Mistake:
    """A mistake to plant: the text to replace, which occurs once, and what replaces it."""

    what: str
    old: str
    new: str
    given: Mapping[str, Any] = field(default_factory=dict)  #: values of the test's parameters
    error: bool = False  #: the mistake shows as an error of the script or of a client


class Mutant(NamedTuple):
    """A mistake in a script, and the test that must fail for it."""

    script: str
    mistake: Mistake
    test: str

    def plant(self, directory: Path) -> None:
        """Make the mistake in a copy of the scripts."""
        path = directory / f"{self.script}.lua"
        text = compose(directory, self.script)
        assert text.count(self.mistake.old) == 1, f"{self}: the old text must occur once"
        path.unlink()  # a link to the script itself
        path.write_text(text.replace(self.mistake.old, self.mistake.new))

    def __str__(self) -> str:
        return f"{self.script}: {self.mistake.what}"


def read(
    text: str,
    named: Mapping[str, Mapping[str, Any]] | None = None,
    shared: Mapping[str, Mistake] | None = None,
) -> Iterator[tuple[str, Mistake]]:
    """Yield each test with each mistake that it must notice.

    Args:
        text: the list, as at the top of this file.
        named: values of parameters by the name that stands for them.
        shared: mistakes whose text stands elsewhere, by what they are.

    Raises:
        ValueError: a mistake has no text.
    """
    test, given = "", dict[str, Any]()
    lines = text.strip("\n").split("\n")
    while lines:
        line = lines.pop(0)
        if not line.startswith("  "):
            test, given = line, {}
        elif line.startswith("  given: "):
            given = _given(line.removeprefix("  given: "), named or {})
        else:
            what = line.strip()
            old, new = _marked(lines, "  -"), _marked(lines, "  +")
            if old is not None:
                error = what.endswith(ERROR)
                yield test, Mistake(what.removesuffix(ERROR), old, new or "", given, error)
            elif what in (shared or {}):
                yield test, replace((shared or {})[what], given=given)
            else:
                raise ValueError(f"{test}: {what!r} is not in tests/facts/parts.py and has no text")


def _marked(lines: list[str], mark: str) -> str | None:
    """Take the lines that begin with a mark, and return what follows it."""
    found = []
    while lines and lines[0].startswith(mark):
        found.append(lines.pop(0).removeprefix(mark).removeprefix(" "))
    return "\n".join(found) if found else None


def _given(text: str, named: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of parameters, such as those of ``count=3, end="nack"``."""
    if text in named:
        return dict(named[text])
    call = ast.parse(f"dict({text})", mode="eval").body
    assert isinstance(call, ast.Call), text
    return {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
