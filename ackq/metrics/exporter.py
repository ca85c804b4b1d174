"""`Exporter`: serves the metrics of queues, and each queue's backlog as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import Empty, LifoQueue
from urllib.parse import parse_qs, unquote, urlsplit

import redis

from ackq.core.client import Closable
from ackq.core.hosts import KnownHosts, is_loopback
from ackq.core.io.http import Answer, HttpServer
from ackq.errors import AckqError, ConfigurationError, QueueNameError, redact
from ackq.metrics.collector import Collector
from ackq.metrics.exposition import render_families
from ackq.ops.overview import Overview, Snapshot
from ackq.ops.readings import Reading
from ackq.ops.reads import in_time

#: Where a queue's figures are as JSON; the name follows, percent-encoded.
QUEUES = "/v1/queues/"
#: Seconds that a connection may last.
MAX_CONNECTION = 60.0
#: Seconds for which one queue is read. KEDA gives up after 3 by default.
MAX_TIME = 2.0
#: Most queues that are read at a time, each over a connection of its own.
READERS = 4
#: Most seconds for which the messages that will be due are counted.
MAX_AHEAD = 30 * 86_400.0
_HELP = {"paths": ["/metrics", f"{QUEUES}NAME", "/healthz"]}


class Exporter(Closable):
    """Answers ``/metrics`` for Prometheus, and ``/v1/queues/NAME`` for autoscalers such as KEDA.

    It only reads, has no password and no TLS: listen on loopback, or where only the scrapers can
    connect. ``/healthz`` answers while the exporter runs, even if Redis does not.
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        names: Sequence[str] = (),
        *,
        listen: tuple[str, int] = ("127.0.0.1", 0),
        hosts: Sequence[str] = (),
        totals: bool = True,
        history: bool = True,
        time_field: str | None = None,
    ) -> None:
        """Listen, and read the queues once, so that the first scrape is quick.

        Args:
            client: of the server, or of any node of the cluster.
            names: the queues to report; any other is not found. If empty, all.
            listen: the address, IPv4 or IPv6, and the port; 0 picks a free port. Defaults to
                loopback and a free port.
            hosts: names under which the exporter is reached, without ports; requests that name
                others are refused. IP addresses and localhost need none. Defaults to none on
                loopback, where a browser may be made to ask by other sites, else to any name.
            totals: see `Collector`.
            history: see `Collector`.
            time_field: see `Collector`.

        Raises:
            ConfigurationError: the address, port or time field cannot be used.
            NoPermissionError: no queues were named, and the user may not search for them.
            QueueNameError: a name cannot be a queue's.
        """
        self._names = frozenset(names)
        self._collector = Collector(
            client, names, totals=totals, history=history, time_field=time_field
        )
        self._readers: LifoQueue[Overview] = LifoQueue()
        for _ in range(READERS):
            self._readers.put(Overview(client, time_field=time_field))
        known = KnownHosts(hosts) if hosts or is_loopback(listen[0]) else None
        self._server = HttpServer(listen, self._answer, MAX_CONNECTION, "exporter", known)
        try:
            self._collector.prepare()
        except BaseException:
            self._server.server_close()
            raise
        self._server.start()

    @property
    def address(self) -> tuple[str, int]:
        """The address and port that it listens on."""
        return self._server.address

    def close(self) -> None:
        """Stop listening, and close the connections to Redis."""
        self._server.stop()
        self._collector.close()
        with suppress(Empty):
            while True:
                self._readers.get_nowait().close()

    def _answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        parts = urlsplit(path)
        if parts.path == "/metrics":
            return render_families(self._collector.families(), headers)
        if parts.path == "/healthz":
            return Answer.of_json(200, {"healthy": True})
        if parts.path.startswith(QUEUES):
            query = parse_qs(parts.query)
            try:
                name = unquote(parts.path.removeprefix(QUEUES), errors="strict")
            except UnicodeDecodeError:
                return _error(400, "the name of a queue is UTF-8")
            return self._queue(name, query)
        return Answer.of_json(200 if parts.path == "/" else 404, _HELP)

    def _queue(self, name: str, query: Mapping[str, list[str]]) -> Answer:
        if self._names and name not in self._names:
            return _error(404, "this exporter does not report a queue of that name")
        consumers = query.get("consumer", [])
        try:
            due_within = _due_within(query)
            snapshot = in_time(MAX_TIME, lambda: self._read_one(name, consumers, due_within))
        except (QueueNameError, ConfigurationError) as error:
            return _error(400, str(error))
        except TimeoutError:
            return _error(503, f"Redis did not answer within {MAX_TIME:g} s")
        except (redis.RedisError, AckqError) as error:
            return _error(503, redact(str(error)) or type(error).__name__)
        return _one_of(snapshot, query.get("kind", [""])[-1], consumers)

    def _read_one(self, name: str, consumers: list[str], due_within: float | None) -> Snapshot:
        try:
            reader = self._readers.get(timeout=MAX_TIME)
        except Empty:
            raise TimeoutError from None
        try:
            return reader.read_one(name, consumers, due_within)
        finally:
            self._readers.put(reader)


def _due_within(query: Mapping[str, list[str]]) -> float | None:
    """Return the seconds that the query asks for.

    Raises:
        ConfigurationError: they are no number from 0 to 2592000, which is thirty days.
    """
    given = query.get("due_within")
    if given is None:
        return None
    with suppress(ValueError):
        seconds = float(given[-1])
        if 0 <= seconds <= MAX_AHEAD:
            return seconds
    raise ConfigurationError(f"due_within is a number of seconds, 0 to {MAX_AHEAD:.0f}")


def _one_of(snapshot: Snapshot, kind: str, consumers: list[str]) -> Answer:
    # A scaler must not take a figure that lacks a part for the whole.
    if not all(server.up for server in snapshot.servers):
        return _error(503, "Redis cannot be reached")
    named = [queue for queue in snapshot.queues if kind in ("", queue.kind)]
    if len(named) > 1:
        kinds = ", ".join(each.kind for each in named)
        return _error(409, f"there are several queues of that name: add ?kind= with one of {kinds}")
    if not named:
        problem = "a key of that name has another type" if snapshot.left_out else "there is none"
        return _error(409 if snapshot.left_out else 404, f"no such queue: {problem}")
    missing = {*consumers} - named[0].lags.keys()
    if missing:
        return _error(404, f"not subscribed: {', '.join(sorted(missing))}")
    return Answer.of_json(200, _fields(named[0]))


def _fields(reading: Reading) -> dict[str, object]:
    fields: dict[str, object] = {
        "queue": reading.name,
        "kind": reading.kind,
        "backlog": reading.backlog + (reading.due_soon or 0),
        **reading.states,
    }
    if reading.due_soon is not None:
        fields["due_soon"] = reading.due_soon
    if reading.paused is not None:
        fields["paused"] = reading.paused
    if reading.overdue is not None:
        fields["lease_overdue_seconds"] = reading.overdue
    if reading.oldest_ready is not None:
        fields["oldest_ready_seconds"] = reading.oldest_ready
    if reading.kind == "topic":
        fields["lag"] = dict(reading.lags)
    return fields


def _error(status: int, text: str) -> Answer:
    return Answer.of_json(status, {"error": text})
