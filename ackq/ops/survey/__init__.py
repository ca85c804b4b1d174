"""`Surveyor`: look at a live list before ackq takes it over. Nothing is changed."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import redis
from redis.exceptions import ResponseError

from ackq.config import QueueConfig
from ackq.core.client import Client
from ackq.core.effects import Operation, Request
from ackq.core.io.outside import SYSTEM
from ackq.errors import AckqError, QueueNameError
from ackq.ops.asking import ask, reply
from ackq.ops.facts import Facts, read_facts
from ackq.ops.survey.bodies import Sample, sample
from ackq.ops.survey.clients import MAX_CLIENTS, Users, calls_of, increase, note
from ackq.ops.survey.edges import Traffic, watch
from ackq.ops.survey.neighbours import Search, processing_lists, side_keys
from ackq.ops.trials import is_denial
from ackq.queue import inspection
from ackq.queue.keys import QueueKeys
from ackq.queue.messages import QueueStats
from ackq.queue.record import recorded
from ackq.queue.spec import QueueSpec

T = TypeVar("T")


@dataclass(slots=True)
class Survey:
    """What could be seen of a list. None: this user may not see it.

    Attributes:
        name: of the list.
        kind: the type of its key: "list", or "none" if there is no such key.
        memory: its estimated bytes in memory.
        idle: seconds since a client last used it, before this survey did.
        expires_in: seconds until Redis deletes it; None if it has no time to live.
        traffic: what happened at its ends.
        clients: by their latest list command, clients of this server in the same database. They
            may work on other lists.
        calls: the calls of each list command on this server meanwhile, on any list.
        sample: what some of its messages showed.
        recorded: the settings that a consumer of ackq recorded: its end, or its groups and limit.
        side_keys: keys of ackq for a queue with this name, with their types.
        stats: the counts of that queue, if there are side keys.
        search: lists that look like its processing lists.
        facts: about the server.
        unseen: what this user may not see.
    """

    name: str
    kind: str | None = None
    memory: int | None = None
    idle: int | None = None
    expires_in: float | None = None
    traffic: Traffic | None = None
    clients: dict[str, Users] | None = None
    calls: dict[str, int] | None = None
    sample: Sample | None = None
    recorded: dict[str, Any] = field(default_factory=dict)
    side_keys: dict[bytes, str] | None = None
    stats: QueueStats | None = None
    search: Search | None = None
    facts: Facts = field(default_factory=Facts)
    unseen: list[str] = field(default_factory=list)


class Surveyor(Client):
    """Look at one list, and at the clients and the server around it.

    Every step is bounded: 1,000 messages or 1 MiB of them, 8 MiB while it watches, 20,000 keys,
    2,000 clients. It sends commands that read, and one script that counts.
    """

    def __init__(self, client: redis.Redis, name: str) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server.
            name: of the list. It need not be one that a queue may have.

        Raises:
            QueueNameError: the name is not valid Unicode.
        """
        try:
            self._key_bytes = name.encode()
        except UnicodeEncodeError:
            raise QueueNameError(f"list name {name!r} is not valid Unicode") from None
        super().__init__(client, name)
        self._database = int(client.connection_pool.connection_kwargs.get("db") or 0)

    def survey(self, seconds: float = 2.0) -> Survey:
        """Return what can be seen of the list in ``seconds``, and about 50 round trips."""
        survey = Survey(self._key)
        self._driver.run(self._survey(survey, seconds))
        return survey

    def _survey(self, survey: Survey, seconds: float) -> Operation[None]:
        key = self._key_bytes
        # First: each later command makes the list look used.
        # None for a key that does not exist, with an LFU policy, or without permission.
        survey.idle = yield from ask(b"OBJECT", b"IDLETIME", key)
        survey.kind = yield from _seen(survey, "TYPE", _type(key))
        survey.facts = yield from read_facts()
        if not survey.facts.info:
            survey.unseen.append("INFO")
        if survey.kind in ("list", "none"):
            yield from self._survey_list(survey, seconds)
        yield from _survey_neighbours(survey, key)

    def _survey_list(self, survey: Survey, seconds: float) -> Operation[None]:
        key = self._key_bytes
        expiry = yield from _seen(survey, "PTTL", reply(b"PTTL", key))
        survey.expires_in = expiry / 1000 if expiry and expiry > 0 else None
        memory = reply(b"MEMORY", b"USAGE", key, b"SAMPLES", 20)
        survey.memory = yield from _seen(survey, "MEMORY USAGE", memory)
        length = yield from _seen(survey, "LLEN", reply(b"LLEN", key))
        average = (survey.memory or 0) / max(1, length or 0)
        before = yield from _seen(survey, "INFO commandstats", reply(b"INFO", b"commandstats"))
        yield from self._note_clients(survey)
        survey.traffic = yield from _seen(survey, "LRANGE", watch(key, seconds, average))
        yield from self._note_clients(survey)
        if before is not None:
            after = yield from reply(b"INFO", b"commandstats")
            survey.calls = increase(calls_of(before), calls_of(after))
        if survey.traffic is not None:
            survey.sample = yield from _seen(survey, "LRANGE", sample(key, length or 0))

    def _note_clients(self, survey: Survey) -> Operation[None]:
        if survey.facts.number("connected_clients") > MAX_CLIENTS:
            _unseen(survey, f"CLIENT LIST (over {MAX_CLIENTS:,} clients)")
            return
        clients = yield from _seen(survey, "CLIENT LIST", reply(b"CLIENT", b"LIST"))
        if clients is not None:
            survey.clients = survey.clients or {}
            note(survey.clients, clients, self._database)


def _survey_neighbours(survey: Survey, key: bytes) -> Operation[None]:
    survey.search = yield from _seen(survey, "SCAN", processing_lists(key))
    try:
        keys = QueueKeys.of(survey.name)
    except AckqError:
        return
    settings = (yield from _seen(survey, "TYPE of ackq's keys", recorded(keys))) or {}
    config = QueueConfig(**settings)
    keys = QueueKeys.of(survey.name, config.pop_from, config.grouped)
    survey.side_keys = yield from _seen(survey, "TYPE of ackq's keys", side_keys(keys))
    if survey.side_keys and survey.kind in ("list", "none"):
        survey.recorded = settings
        spec = QueueSpec(survey.name, keys, config, outside=SYSTEM)
        try:
            survey.stats = yield from _seen(
                survey, "the counts of the queue", inspection.stats(spec)
            )
        except AckqError:
            return  # a side key has the wrong type, which its own finding reports


def _type(key: bytes) -> Operation[str]:
    kind: bytes = yield Request((b"TYPE", key), resend=True)
    return kind.decode()


def _seen(survey: Survey, what: str, steps: Operation[T]) -> Generator[Any, Any, T | None]:
    """Return the result; None, and a note, if this user or this service does not allow it."""
    try:
        seen = yield from steps
    except ResponseError as error:
        if not is_denial(error) and "unknown command" not in str(error).lower():
            raise
        _unseen(survey, what)
        return None
    return seen


def _unseen(survey: Survey, what: str) -> None:
    if what not in survey.unseen:
        survey.unseen.append(what)
