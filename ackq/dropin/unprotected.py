"""Commands that take messages from a list past ackq, in a call or in a pipeline."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ackq.dropin import reports
from ackq.dropin.arguments import name_of

#: Commands that push what they take from one list onto the next.
_MOVES = frozenset({"RPOPLPUSH", "BRPOPLPUSH", "LMOVE", "BLMOVE"})
#: Commands that take from one list or several, each with the arguments that name them.
_TAKES = dict.fromkeys(("RPOP", "LPOP", *_MOVES), slice(1, 2)) | dict.fromkeys(
    ("BRPOP", "BLPOP"), slice(1, -1)
)
#: Commands that take from the first of several lists, each with the argument that numbers them.
_COUNTED = {"LMPOP": 1, "BLMPOP": 2}


def report(args: Sequence[Any], given: reports.Reports, encoder: Any) -> None:
    """Warn if a command takes from lists, once for each, and note the list that it moves into."""
    command = name_of(args[0], encoder).upper()
    if command in _COUNTED:
        at = _COUNTED[command] + 1
        number = str(args[at - 1]) if len(args) >= at else ""
        sources = slice(at, at + int(number) if number.isdecimal() else at)
    elif command in _TAKES:
        sources = _TAKES[command]
    else:
        return
    for source in args[sources]:
        given.warn(reports.TAKEN, name_of(source, encoder), command=command.lower())
    if command in _MOVES and len(given.moved_into) < reports.MAX_WARNINGS:
        given.moved_into.update(name_of(target, encoder) for target in args[2:3])


def reporting(pipeline: Any, given: reports.Reports, encoder: Any) -> Any:
    """Return a client's pipeline, made to report the lists that it takes from."""
    pipeline.__class__ = _reporting(pipeline.__class__)
    pipeline.ackq_report = functools.partial(report, given=given, encoder=encoder)
    return pipeline


@functools.cache
def _reporting(kind: Any) -> type:
    def execute_command(self: Any, *args: Any, **options: Any) -> Any:
        self.ackq_report(args)
        return kind.execute_command(self, *args, **options)

    # No base class besides, since an object can only change to a class of the same layout.
    members = {"__slots__": (), "__doc__": kind.__doc__, "execute_command": execute_command}
    return type(kind.__name__, (kind,), members)
