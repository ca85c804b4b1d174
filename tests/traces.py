"""Operations as text: what they ask for, what they were answered, and how they ended.

A file of such traces shows at a glance what is sent, and a test compares every word of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ackq.core.effects import Operation, Request, Sleep

#: Longer lists of arguments are cut, and longer arguments.
SHOWN, LONGEST = 60, 100
MISSING = object()


@dataclass(frozen=True)
class Lost:
    """The answer to a request that may have been applied: its reply was lost."""

    error: Exception


def trace(title: str, steps: Operation[Any], *answers: Any, watched: Iterable[Any] = ()) -> str:
    """Run an operation with these answers, and return its trace.

    An answer that is an exception is raised in the operation.

    Args:
        title: the first line.
        steps: the operation.
        answers: one for each effect.
        watched: messages whose state at the end is shown.
    """
    lines = [f"# {title}"]
    left = iter(answers)
    try:
        effect = next(steps)
        while True:
            lines.append(f"> {_effect(effect)}")
            answer: Any = next(left, MISSING)
            if answer is MISSING:
                pytest.fail("\n".join([*lines, "it asks for more"]))
            lines.append(f"< {_answer(answer)}")
            if isinstance(answer, Lost) and isinstance(effect, Request):
                effect.reply_lost, answer = True, answer.error
            failed = isinstance(answer, Exception)
            effect = steps.throw(answer) if failed else steps.send(answer)
    except StopIteration as ended:
        lines.append(f"= {ended.value!r}")
    except Exception as error:
        lines.append(f"! {type(error).__name__}: {error}")
        lines += [f"  {name}: {each!r}" for name, each in _fields(error)]
    lines += [f"  {_name(each)!r}: {_state(each)}" for each in watched]
    unused = list(left)
    assert not unused, "\n".join([*lines, f"it ended before {unused}"])
    return "\n".join(lines)


def stored(file: Path) -> dict[str, str]:
    """Return the traces that a file has, by title."""
    traces = [each.rstrip("\n") for each in file.read_text().split("\n\n")]
    return {each.partition("\n")[0]: each for each in traces}


def compare(file: Path, traces: Iterable[str]) -> None:
    """Compare traces with those that a file has."""
    known, made = stored(file), list(traces)
    assert [each.partition("\n")[0] for each in made] == list(known)
    for trace, found in zip(known.values(), made, strict=True):
        assert found == trace


def write(file: Path, traces: Iterable[str]) -> None:
    """Store traces, to be looked at before they are committed."""
    file.write_text("\n\n".join(traces) + "\n")


def _fields(error: Exception) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an error: ackq's own, and not those that redis-py adds."""
    for name, value in vars(error).items():
        if not name.startswith("_") and name not in ("error_type", "status_code"):
            yield name, value


def _effect(effect: Any) -> str:
    if isinstance(effect, Sleep):
        return f"sleep {effect.seconds!r}"
    if not isinstance(effect, Request):
        return "clock"
    name = f"{effect.script.name}.lua " if effect.script else ""
    args = list(map(_argument, effect.args[:SHOWN]))
    if len(effect.args) > SHOWN:
        args.append(f"... {len(effect.args)} in all")
    ends = [" -- " + {"True": "resend", "False": "once"}.get(f"{effect.resend}", "?")]
    if effect.confirm:
        ends.append(f", {effect.confirm!r}")
    return name + " ".join(args) + "".join(ends)


def _argument(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value[:10]!r}...{len(value)}"
    if isinstance(value, str):
        return value if value.isprintable() and value and " " not in value else repr(value)
    return repr(value)


def _answer(value: Any) -> str:
    if isinstance(value, Lost):
        return f"the reply was lost: {_answer(value.error)}"
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {value}"
    return repr(value)


def _name(message: Any) -> Any:
    return message.id if hasattr(message, "id") else message.key


def _state(message: Any) -> str:
    settled = message.settled_by.name if message.settled_by else ""
    return (
        f"dead={message.dead} lost={message.lease_lost} settled={settled!r}"
        f" sent={message.settles_sent} until={message.lease_expires_at}"
    )
