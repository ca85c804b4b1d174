"""The page's API: what the page shows, as JSON, to read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ackq.core.search_terms import WITHIN
from ackq.errors import ConfigurationError, QueueNotFound
from ackq.ops import dead_letters
from ackq.ops.chronicle.minutes import HOURS
from ackq.ops.chronicle.reader import read_past
from ackq.ops.kinds import kind_for, only_part, opened
from ackq.ops.kinds.kind import Redis
from ackq.ops.operation_log import OperationLog
from ackq.ops.samples import Sample
from ackq.web import answers, failures, overview, queue_details
from ackq.web.openapi import Endpoint, Parameter, document
from ackq.web.renderer import root_of
from ackq.web.search import By, Searches, Wanted

#: What the paths begin with.
PREFIX = "/api/v1"
#: Operations that are returned.
SHOWN = 100
_KIND = Parameter("kind", "list, sharded, delay, topic or rsmq.  [list]")
_NAME = Parameter("name", "The name of the queue.", True)
_ENDPOINTS = (
    Endpoint("/attention", "What needs a person now, the worst first.", answers.AttentionAnswer),
    Endpoint(
        "/queues",
        "Queues, those with the worst troubles first.",
        answers.QueuesAnswer,
        (
            Parameter("q", "Only names that contain this."),
            Parameter("kind", "Only queues of this kind."),
            Parameter("sort", "failing, backlog, dead or name.  [failing]"),
            Parameter("page", "The number of a page of 100 queues.  [1]"),
        ),
    ),
    Endpoint("/queue", "One queue.", answers.QueueAnswer, (_KIND, _NAME)),
    Endpoint(
        "/history",
        "What happened to a queue in each minute of the last hours.",
        answers.HistoryAnswer,
        (_KIND, _NAME, Parameter("hours", f"1 to {HOURS}.  [1]")),
    ),
    Endpoint(
        "/failures",
        "Why messages fail, in all queues or in one.",
        answers.FailuresAnswer,
        (
            Parameter("kind", "Of the queue; needed with name."),
            Parameter("name", "Only this queue."),
        ),
    ),
    Endpoint(
        "/dead",
        "Dead letters of a queue, shard or partition, newest first, without bodies.",
        answers.DeadAnswer,
        (
            _KIND,
            _NAME,
            Parameter("before", "Continue after this entry."),
            Parameter("cause", "Only those with this cause."),
            Parameter("task", "Only those of this task; empty: of none."),
        ),
    ),
    Endpoint(
        "/find",
        "Messages with an id or with some fields, and where they are, without bodies.",
        answers.FindAnswer,
        (
            _KIND,
            _NAME,
            Parameter("id", "The id of the messages. Give it or where."),
            Parameter("where", "A field of the body, as in customer=17; join several with ' & '."),
            Parameter("within", f"Messages of each state to look through.  [{WITHIN}]"),
        ),
    ),
    Endpoint(
        "/schedules",
        "The schedules that are stored for a list queue.",
        answers.SchedulesAnswer,
        (_NAME,),
    ),
    Endpoint(
        "/groups",
        "The groups of a list queue with the longest backlogs, or those that wait longest.",
        answers.GroupsAnswer,
        (
            _NAME,
            Parameter("by", "waiting or oldest.  [waiting]"),
            Parameter("q", "Only names that contain this."),
        ),
    ),
    Endpoint("/workers", "All workers.", answers.WorkersAnswer),
    Endpoint("/operations", "What was done through the page, and marks.", answers.OperationsAnswer),
)


class Api:
    """The handlers of the API. They are not coroutines, so Starlette runs them in threads."""

    def __init__(
        self,
        client: Redis,
        look: Callable[[], Sample],
        readable: Callable[[], Sample],
        log: OperationLog,
        searches: Searches,
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server, or of its cluster.
            look: returns the newest sample, which may be outdated.
            readable: the same, or raises an error if Redis cannot be read.
            log: of operations.
            searches: look for messages.
        """
        self._client = client
        self._look = look
        self._readable = readable
        self._log = log
        self._searches = searches

    def routes(self) -> list[Route]:
        """Return the routes."""
        handlers = {each.path: getattr(self, each.path[1:]) for each in _ENDPOINTS}
        return [
            Route(f"{PREFIX}/openapi.json", self.openapi, name="openapi"),
            *(
                Route(PREFIX + path, _answering(handler), name=f"api{path}")
                for path, handler in handlers.items()
            ),
        ]

    def openapi(self, request: Request) -> Response:
        """Return the document of the API."""
        return _json(document(_ENDPOINTS, root_of(request) + PREFIX))

    def attention(self, query: dict[str, str]) -> answers.AttentionAnswer:
        """Return what needs a person. During an outage, this is what was known, and the outage."""
        return answers.attention_of(self._look())

    def queues(self, query: dict[str, str]) -> answers.QueuesAnswer:
        """Return a page of queues. During an outage, these are the last known figures."""
        sample = self._look()
        number = _number(query, "page", 1, 10**6)
        chosen = (query.get("q", ""), query.get("kind", ""), query.get("sort", ""))
        page = overview.page_of(sample, *chosen, number)
        return answers.queues_of(sample, page.rows, page.total, page.pages)

    def queue(self, query: dict[str, str]) -> answers.QueueAnswer:
        """Return one queue."""
        kind, name = _named(query)
        row = self._readable().row(kind, name)
        if row is None:
            raise QueueNotFound(f"no queue {name!r} of kind {kind} was found")
        return answers.queue_of(row)

    def history(self, query: dict[str, str]) -> answers.HistoryAnswer:
        """Return the last hours of a queue."""
        kind, name = _named(query)
        self._readable()
        seconds = 3600 * _number(query, "hours", 1, HOURS)
        rows, now = read_past(self._client, kind, name, seconds)
        entries = [each for each in self._log.newest(SHOWN) or () if each.at > now - seconds]
        return answers.history_of(rows, entries, now)

    def failures(self, query: dict[str, str]) -> answers.FailuresAnswer:
        """Return why messages fail."""
        name = query.get("name")
        wanted = _named(query) if name else None
        rows = [row for row in self._readable().rows if wanted in (None, row.key)]
        causes_now = failures.failures(self._client, rows, time.time())
        causes = [
            answers.cause_of(each.queue, each.cause, each.minutes_5, each.hour)
            for each in causes_now.rows
        ]
        return answers.FailuresAnswer(causes_now.total, causes_now.complete, causes)

    def dead(self, query: dict[str, str]) -> answers.DeadAnswer:
        """Return a page of dead letters."""
        kind, name = _named(query)
        self._readable()
        with opened(self._client, kind, name, "dead") as queue:
            only_part(queue)
        chosen = (query.get("before") or None, query.get("cause"), query.get("task"))
        page = dead_letters.page(self._client, kind, name, *chosen)
        return answers.dead_of(dead_letters.newest(self._client, kind, name)[0], page)

    def find(self, query: dict[str, str]) -> answers.FindAnswer:
        """Return the messages that are looked for."""
        kind, name = _named(query)
        kind_for("find", kind)
        self._readable()
        within = _number(query, "within", WITHIN, 10**7)
        if ("id" in query) == ("where" in query):
            raise ConfigurationError("name what to find: ?id=… or ?where=FIELD=VALUE")
        by: By = "id" if "id" in query else "fields"
        text = query["id" if by == "id" else "where"]
        search = self._searches.search(Wanted(kind, name, text, by, within))
        search.run()
        return answers.FindAnswer(search.looked, [*map(answers.found_of, search.matches)])

    def schedules(self, query: dict[str, str]) -> answers.SchedulesAnswer:
        """Return the stored schedules of a list queue."""
        _, name = _named(query)
        self._readable()
        listed = queue_details.schedules_of(self._client, name)
        return answers.SchedulesAnswer(
            listed is not None, [*map(answers.schedule_of, listed or ())]
        )

    def groups(self, query: dict[str, str]) -> answers.GroupsAnswer:
        """Return the groups that come first."""
        _, name = _named(query)
        self._readable()
        with opened(self._client, "list", name, "peek") as queue:
            found = queue_details.groups_of(queue, query.get("by", ""), query.get("q", ""))
        return answers.GroupsAnswer(
            found is not None, [*map(answers.group_of, found.groups if found else ())]
        )

    def workers(self, query: dict[str, str]) -> answers.WorkersAnswer:
        """Return all workers."""
        listed = queue_details.all_workers(self._client, self._readable().rows)
        return answers.WorkersAnswer(listed is not None, [*map(answers.worker_of, listed or ())])

    def operations(self, query: dict[str, str]) -> answers.OperationsAnswer:
        """Return what was done."""
        self._readable()
        listed = self._log.newest(SHOWN)
        return answers.OperationsAnswer(listed is not None, [*map(answers.mark_of, listed or ())])


def is_api(request: Request) -> bool:
    """Return whether a request is one to the API, whose errors are JSON too."""
    return request.url.path.removeprefix(root_of(request)).startswith("/api/")


def problem(status: int, text: str) -> Response:
    """Return an error."""
    return _json(asdict(answers.ErrorAnswer(text)), status)


def _answering(handler: Callable[[dict[str, str]], Any]) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        return _json(asdict(handler(dict(request.query_params))))

    return answer


def _json(content: Any, status: int = 200) -> Response:
    # ASCII, since names may contain what UTF-8 cannot hold.
    return Response(json.dumps(content), status, media_type="application/json")


def _named(query: dict[str, str]) -> tuple[str, str]:
    kind, name = query.get("kind") or "list", query.get("name", "")
    if not name:
        raise ConfigurationError("name the queue: ?name=…")
    return kind_for(None, kind).name, name


def _number(query: dict[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise ConfigurationError(f"{name} is a number from 1 to {most}")
    return int(text)
