"""Operations as text: what they ask for, what they are answered, and how they end.

A file of such traces shows at a glance what is sent, and a test compares every word of it. The
test's module has the operations, in ``PARTS``; its ``FILE`` has their answers and the rest::

    # push soon after
    > clock <- 4.9
    > LPUSH q {"id":"a","n":1} -- once <- 1
    = 'a'

A long answer has a line of its own, and so has each answer to a pipeline. The clock shows 1.0, and
has a line where it shows another time than before. What ends with a request returned None. For a
new operation, write a title and the answers into the file, as ``< 1`` or ``> clock <- 4.9``, fill
in the other lines with ``python -m tests.traces tests.queue.test_requests``, and look at the
difference.
"""

import ast
import builtins
import importlib
import itertools
import random
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis.exceptions

from ackq import errors
from ackq.core.effects import Clock, Operation, Pipeline, Request, Sleep

#: Longer lists of arguments are cut, and longer arguments.
SHOWN, LONGEST = 60, 100
#: A longer answer has a line of its own.
WIDTH = 60
ANSWERED = " <- "
UNANSWERED = "it asks for more"
LOST = "the reply was lost: "
NOT_SENT = "not sent: "

#: What a part of a module's traces yields: a title; an operation, or a function to call; and
#: messages whose state at the end is shown. A text belongs to the trace before it.
Traces = Iterator[tuple[Any, ...] | str]


@dataclass(frozen=True)
class Lost:
    """The answer to a request that may have been applied: its reply was lost."""

    error: Exception


@dataclass(frozen=True)
class Reading:
    """What the clock shows from here on."""

    seconds: float


@dataclass(frozen=True)
class NotSent:
    """The answer to a pipeline of which nothing was sent."""

    error: Exception


def trace(title: str, answers: Iterable[Any], made: Any, watched: Iterable[Any] = ()) -> str:
    """Run an operation with these answers, and return its trace.

    An answer that is an exception is raised in the operation.
    """
    lines = [f"# {title}"]
    try:
        result = made() if callable(made) else made
        if isinstance(result, Generator):
            result = _run(result, [*answers], lines)
        if result is not None:
            lines.append(f"= {result!r}")
    except Exception as error:
        lines.append(f"! {type(error).__name__}: {error}")
        lines += [f"  {name}: {each!r}" for name, each in _fields(error)]
        lines += [f"  {note}" for note in getattr(error, "__notes__", ())]
    lines += [f"  {_name(each)!r}: {_state(each)}" for each in watched]
    return "\n".join(lines)


def _run(steps: Operation[Any], answers: list[Any], lines: list[str]) -> Any:
    """Run an operation, note its effects and their answers, and return its result."""
    now = 1.0
    try:
        effect = next(steps)
        while True:
            if isinstance(effect, Clock):
                if answers and isinstance(answers[0], Reading):
                    before, now = now, answers.pop(0).seconds
                    lines += [f"> clock{ANSWERED}{now}"] * (now != before)
                effect = steps.send(now)
                continue
            lines.append(f"> {_effect(effect)}")
            try:
                answer = answers.pop(0)
                if isinstance(effect, Pipeline) and not isinstance(answer, NotSent):
                    answer = [answer, *(answers.pop(0) for _ in effect.requests[1:])]
            except IndexError:
                return f"{UNANSWERED}: write its answer below, as < ..."
            shown = (
                answer if isinstance(effect, Pipeline) and isinstance(answer, list) else [answer]
            )
            lines += _joined(lines.pop(), [_answer(each) for each in shown])
            answer = answer.error if isinstance(answer, NotSent) else answer
            if isinstance(answer, Lost) and isinstance(effect, Request):
                effect.reply_lost, answer = True, answer.error
            failed = isinstance(answer, Exception)
            effect = steps.throw(answer) if failed else steps.send(answer)
    except StopIteration as ended:
        return ended.value


def _joined(request: str, answers: list[str]) -> list[str]:
    """Return the lines of a request and its answers."""
    if len(answers) == 1 and "\n" not in request and len(answers[0]) <= WIDTH:
        return [request + ANSWERED + answers[0]]
    return [request, *(f"< {each}" for each in answers)]


def stored(file: Path) -> dict[str, str]:
    """Return the traces that a file has, by their first lines."""
    traces = re.split(r"\n+(?=# )", file.read_text().rstrip("\n"))
    return {each.partition("\n")[0]: each for each in traces}


def answers(trace: str) -> list[Any]:
    """Return the answers in a trace."""
    lines = trace.replace(f"> clock{ANSWERED}", "< clock ").replace(ANSWERED, "\n< ").split("\n")
    return [_read(line[2:]) for line in lines if line.startswith("< ")]


def traces(file: Path, parts: Iterable[Callable[[], Traces]]) -> list[str]:
    """Return the traces of a module's parts, with the answers that the file has."""
    known = stored(file)
    made: list[str] = []
    state = random.getstate()
    for part in parts:
        random.seed(1)
        for each in part():
            if isinstance(each, str):
                made[-1] += f"\n{each}"
            else:
                made.append(trace(each[0], answers(known.get(f"# {each[0]}", "")), *each[1:]))
    random.setstate(state)
    return made


def compare(file: Path, parts: Iterable[Callable[[], Traces]]) -> None:
    """Compare the traces of a module's parts with those that its file has."""
    known, made = stored(file), traces(file, parts)
    assert [each.partition("\n")[0] for each in made] == list(known)
    for trace, found in zip(known.values(), made, strict=True):
        assert found == trace
        assert UNANSWERED not in found


def write(file: Path, traces: Iterable[str]) -> None:
    """Store traces, to be looked at before they are committed. Short ones make a list."""
    text = ""
    for before, each in itertools.pairwise(("", *traces)):
        text += f"{each}\n" if before.count("\n") == each.count("\n") == 1 else f"\n{each}\n"
    file.write_text(text.removeprefix("\n"))


def _fields(error: Exception) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an error: ackq's own, and not those that redis-py adds."""
    for name, value in vars(error).items():
        if not name.startswith("_") and name not in ("error_type", "status_code"):
            yield name, value


def _effect(effect: Any) -> str:
    if isinstance(effect, Sleep):
        return f"sleep {effect.seconds!r}"
    if isinstance(effect, Pipeline):
        return "\n> & ".join(map(_effect, effect.requests))
    name = f"{effect.script.name}.lua " if effect.script else ""
    args = list(map(_argument, effect.args[:SHOWN]))
    if len(effect.args) > SHOWN:
        args.append(f"... {len(effect.args)} in all")
    ends = [" -- " + {"True": "resend", "False": "once"}.get(f"{effect.resend}", "?")]
    if effect.confirm:
        ends.append(f", {effect.confirm!r}")
    if effect.blocks:
        ends.append(f", for {effect.blocks:.3f} s")
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
        return f"{LOST}{_answer(value.error)}"
    if isinstance(value, NotSent):
        return f"{NOT_SENT}{_answer(value.error)}"
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {value}"
    return repr(value)


def _read(text: str) -> Any:
    """Return the answer that a line shows."""
    if text.startswith("clock "):
        return Reading(float(text.removeprefix("clock ")))
    if text.startswith(LOST):
        return Lost(_read(text.removeprefix(LOST)))
    if text.startswith(NOT_SENT):
        return NotSent(_read(text.removeprefix(NOT_SENT)))
    try:
        return ast.literal_eval(text)
    except SyntaxError:
        name, _, words = text.partition(": ")
    kinds = (getattr(module, name, None) for module in (redis.exceptions, errors, builtins))
    return next(filter(None, kinds))(words)


def _name(message: Any) -> Any:
    return message.id if hasattr(message, "id") else message.key


def _state(message: Any) -> str:
    settled = message.settled_by.name if message.settled_by else ""
    return (
        f"dead={message.dead} lost={message.lease_lost} settled={settled!r}"
        f" sent={message.settles_sent} until={message.lease_expires_at}"
    )


if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    write(module.FILE, traces(module.FILE, module.PARTS))
