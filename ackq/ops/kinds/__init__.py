"""The kinds of queue: one table for the commands, the page, the metrics and the live view.

To add a kind, write a module with its `Kind`, add that to `KINDS`, and its keys to
`ackq.ops.search`, which finds queues without their names. A product is imported only when a queue
of its kind is opened or read, so that commands start fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from typing import Any

from ackq.core.effects import Operation, Request
from ackq.core.inspection_results import DeadLetter
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.core.io.together import run_all
from ackq.errors import ConfigurationError, KeyTypeError
from ackq.ops.kinds.delays import DELAY
from ackq.ops.kinds.kind import Kind, Opened, Part, Redis, Verb, has_type, unless_denied
from ackq.ops.kinds.lists import LIST, SHARDED
from ackq.ops.kinds.rsmq import RSMQ_QUEUE
from ackq.ops.kinds.topics import TOPIC
from ackq.ops.readings import Asked, Found, Reading
from ackq.ops.sharded import is_recorded
from ackq.queue.keys import QueueKeys

KINDS: dict[str, Kind] = {known.name: known for known in (LIST, SHARDED, DELAY, TOPIC, RSMQ_QUEUE)}


def kind_for(verb: Verb | None, kind: str) -> Kind:
    """Return a kind that can do something; None: nothing special.

    Raises:
        ConfigurationError: there is no such kind, or it cannot do that.
    """
    if kind not in KINDS:
        raise ConfigurationError(f"{kind!r} is not a kind of queue")
    if verb is not None and verb not in KINDS[kind].does:
        refusal = f"that cannot be done with {KINDS[kind].called}"
        raise ConfigurationError(KINDS[kind].refusals.get(verb, refusal))
    return KINDS[kind]


def stream_of(kind: str, name: str) -> tuple[bytes, Callable[[Sequence[Any]], DeadLetter]]:
    """Return the stream with the dead letters of a queue or part, and how to read an entry.

    Raises:
        ConfigurationError: there is no such kind, or its shards have the dead letters.
    """
    chosen = kind_for("dead", kind)
    if chosen.dead is None or chosen.letter is None:
        raise ConfigurationError(f"{name!r} has no dead letters of its own: its shards have them")
    return chosen.dead(name), chosen.letter


def opened(client: Redis, kind: str, name: str, verb: Verb | None = None) -> Opened:
    """Open a queue of a kind that can do something; see `kind_for`.

    Raises:
        ConfigurationError: there is no such kind, or it cannot do that.
        QueueNameError: the name is impossible.
    """
    return kind_for(verb, kind).open(client, name)


def only_part(queue: Opened) -> Part:
    """Return what has the dead letters of a queue without shards or partitions.

    Raises:
        ConfigurationError: it has some: entries are those of one of them.
    """
    if queue.divided:
        raise ConfigurationError(f"{queue.name!r} has {queue.kind.part}s: name one of these")
    (part,) = queue.parts()
    return part  # type: ignore[no-any-return]


def kinds_of(client: Redis, name: str, verb: Verb) -> list[Kind]:
    """Return the kinds of the queues with this name that do something, or have a reason not to.

    Sharded queues are always included.

    A list queue that is empty has no keys, so it is found if there is nothing else. Cost: one
    round trip, or a few if there is more than a list. A kind that this user may not look for is
    not found.
    """
    route = route_of(client, name.encode())
    others = [kind for kind in KINDS.values() if kind is not LIST and _concerns(kind, verb)]
    with closing(route):
        results = run_all(
            [(Driver(route.beside(_key(other, name))), _is_there(other, name)) for other in others]
        )
        for result in results:
            if isinstance(result, Exception):
                raise result
        kinds = [kind for kind, is_there in zip(others, results, strict=True) if is_there]
        if verb in LIST.does and (not kinds or Driver(route).run(_has_list(name))):
            kinds.insert(0, LIST)
    return kinds


def _concerns(kind: Kind, verb: Verb) -> bool:
    # The name of a sharded queue is never that of a list: its shards are lists.
    return verb in kind.does or verb in kind.refusals or kind is SHARDED


def _key(kind: Kind, name: str) -> bytes:
    return (f"{{{name}}}" if kind is SHARDED else name).encode()


def _is_there(kind: Kind, name: str) -> Operation[bool]:
    if kind is SHARDED:
        return (yield from is_recorded(name))
    return bool((yield from kind.look_up(name)))


def _has_list(name: str) -> Operation[bool]:
    """Return whether a list has messages: RSMQ has another key with the name of its queue."""
    if (yield from has_type(name, b"list")):
        return True
    keys = QueueKeys.of(name)
    request = Request((b"EXISTS", keys.backup, keys.delayed, keys.dead), resend=True)
    return bool((yield from unless_denied(request)))


def check_workable(client: Redis, name: str) -> None:
    """Check that workers can take from the queue of this name, which is not sharded.

    Raises:
        ConfigurationError: it is of a kind whose messages workers do not take, and there has never
            been a list queue of this name.
    """
    kind = kinds_of(client, name, "work")[0]
    if "work" in kind.does:
        return
    keys = QueueKeys.of(name)
    traces = Request((b"EXISTS", keys.record, keys.counters, keys.history), resend=True)
    with closing(route_of(client, keys.ready)) as route, suppress(KeyTypeError):
        driver = Driver(route)
        driver.run(kind.check(name))
        if not driver.run(unless_denied(traces)):
            raise ConfigurationError(
                f"{name!r} is {kind.called}, and ackq work takes from lists:"
                f" {kind.refusals['work']}. If you also want a list of that name, push to it first"
            )


def read(found: Found, consumers: Iterable[str], asked: Asked) -> Operation[Reading]:
    """Return the figures of a queue or part.

    Args:
        found: its kind and name.
        consumers: those of a topic, whose lags are read.
        asked: what to read, and how.

    Raises:
        KeyTypeError: a key of that name does not belong to a queue of that kind.
    """
    return KINDS[found.kind].read(found.name, sorted(consumers), asked)


def check(found: Found) -> Operation[None]:
    """Raise an error if the keys of a queue belong to another program.

    Raises:
        KeyTypeError: they do.
    """
    return KINDS[found.kind].check(found.name)


def look_up(name: str) -> Operation[list[Found]]:
    """Return what is named ``name``: the kinds of queue that its keys show, shards and partitions.

    A list queue that is empty has no keys, so it is always among them.
    """
    queues: list[Found] = []
    for kind in KINDS.values():
        queues += yield from kind.look_up(name)
    return [*dict.fromkeys(queues)]
