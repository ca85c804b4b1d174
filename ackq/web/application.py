"""`application`: the page as an ASGI application."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import redis
from redis.exceptions import NoPermissionError

try:
    import jinja2  # noqa: F401
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
    from starlette.types import Receive, Scope, Send
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"ackq.web needs {missing.name}: pip install 'ackq[web]'", name=missing.name
    ) from missing

from ackq.core.inspection_results import DeadLetter, State
from ackq.core.io.lender import Lender, lending
from ackq.core.search_terms import WITHIN
from ackq.errors import (
    AckqError,
    ConfigurationError,
    EvictionPolicyError,
    KeyTypeError,
    LoginRefused,
    MessageError,
    NotSubscribed,
    QueueNotFound,
    UnsupportedServer,
    redact,
)
from ackq.ops import dead_letters
from ackq.ops.chronicle.reader import read_past
from ackq.ops.kinds import kind_for, only_part, opened
from ackq.ops.operation_log import OperationLog
from ackq.ops.samples import Sample
from ackq.web import failures, forms, overview, past, queue_details, search
from ackq.web.api import Api, is_api, problem
from ackq.web.guard import Guard
from ackq.web.idle import IdleTimer
from ackq.web.jobs import Jobs
from ackq.web.operations import Operating
from ackq.web.renderer import Renderer, templates
from ackq.web.search import Searches, Wanted
from ackq.web.watcher import Watcher

FILES = Path(__file__).parent / "static"
#: Seconds without a request after which the connections to Redis are closed.
IDLE = 300.0
#: Longest text of the search field that is looked at.
MAX_SEARCH = 200
#: Operations and marks that are looked at for the charts of a queue.
SHOWN_MARKS = 200
STATES: dict[str, State] = {"ready": "ready", "in_flight": "in_flight", "delayed": "delayed"}
#: What the page says instead of an error of HTTP.
PROBLEMS = {
    403: "This form is out of date, or it did not come from this page. Nothing was done. Go back,"
    " reload the page, and try again.",
    408: "This form arrived too slowly. Nothing was done.",
    413: "This form is too long. Nothing was done.",
}
_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9._-]")


def application(
    client: redis.Redis | redis.RedisCluster,
    names: Sequence[str] = (),
    *,
    hosts: Iterable[str] = (),
    users: Mapping[str, str] | None = None,
    operate: bool = False,
    user_header: str | None = None,
    time_field: str | None = None,
    history: bool = True,
) -> Guard:
    """Return the page as an ASGI application, to be served or mounted under a prefix.

    Without ``operate`` it reads and never writes, but for two things: while somebody looks,
    consumers count what they do, see `ackq.Queue.counters`, and the page keeps what happened in
    each minute, unless ``history`` is off. Links honour the prefix that the
    server passes as root_path. Nothing is sent before the first request. The connections to
    Redis are closed at the end of the lifespan, and after five minutes without a request.

    Mount it behind a login of yours, or pass ``users``: anyone who reaches the page can read
    every message.

    Args:
        client: a blocking redis-py client: standalone, Sentinel's `master_for`, or cluster.
        names: the queues that the overview shows, of any kind; RSMQ's as
            ``<namespace>:<queue>``. Defaults to all that are found.
        hosts: the names under which the page is reached, such as ``admin.example.com``. Requests
            to any other are refused, except to ``localhost`` and to IP addresses.
        users: passwords by user name, for HTTP's basic authentication. Defaults to None: none.
        operate: let people redrive and drop dead letters, pause queues, move consumers, and so
            on. Every operation is recorded in Redis. Serve such a page with one process, since
            what runs in the background belongs to one. Defaults to False: no request changes
            anything.
        user_header: the header in which a proxy names the user, such as ``X-Forwarded-User``,
            for the record. Anyone can send such a header to the page itself, so let nobody reach
            it but through the proxy. Defaults to None: the user of ``users``, or ``user`` of the
            ASGI scope, as Starlette's authentication sets it.
        time_field: the field of the bodies with the time of creation, as in `ackq.Queue`, for
            the ages of messages. Defaults to None: only the time of CloudEvents.
        history: keep the figures of each minute in Redis, for a day: up to 170 KB for a busy
            queue. Workers keep them too. Defaults to True.

    Raises:
        ConfigurationError: the time field's name cannot be used.
        QueueNameError: a name cannot be a queue's.
    """
    lent = lending(client)
    log = OperationLog(lent)
    jobs = Jobs(log)
    renderer = Renderer(operate, log, templates())
    site = _Site(lent, Watcher(lent, names, time_field, history), renderer, time_field)
    operating = Operating(lent, renderer, jobs, site.watcher.refresh)

    def disconnect() -> None:
        site.watcher.close()
        log.close()
        if isinstance(lent, Lender):
            lent.close()

    def rest() -> None:
        if jobs.running():
            idle.touch()
        else:
            disconnect()

    # Applications do not run the lifespans of those that are mounted in them; Django has none.
    idle = IdleTimer(IDLE, rest)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        idle.cancel()
        for close in (jobs.close, disconnect):
            await run_in_threadpool(close)

    app = Starlette(
        routes=[
            *site.routes(),
            *operating.routes(),
            *Api(lent, site.watcher.sample, site.readable, log, site.searches).routes(),
            Mount("/static", StaticFiles(directory=FILES), name="static"),
        ],
        exception_handlers=site.problems(),
        lifespan=lifespan,
    )

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        idle.touch()
        try:
            await app(scope, receive, send)
        finally:
            idle.touch()  # it may have opened connections after the timer had closed all

    return Guard(page, hosts, users, operate=operate, user_header=user_header)


class _Site:
    """The handlers that read. They are not coroutines, so Starlette runs them in threads."""

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        watcher: Watcher,
        renderer: Renderer,
        time_field: str | None,
    ) -> None:
        self.client = client
        self.watcher = watcher
        self._renderer = renderer
        self._show = renderer.show
        self.searches = Searches(client)
        self._log = renderer.log
        self._time_field = time_field

    def routes(self) -> list[Route]:
        """Return the routes. Names of queues are in the query, since they may contain slashes."""
        handlers = (
            self.live,
            self.queue,
            self.find,
            self.dead,
            self.letter,
            self.body,
            self.failures,
            self.workers,
            self.server,
        )
        return [
            Route("/", self.queues, name="overview"),
            *(Route(f"/{each.__name__}", each, name=each.__name__) for each in handlers),
        ]

    def problems(self) -> dict[Any, Callable[[Request, Exception], Response]]:
        """Return the handlers of errors."""
        return {
            HTTPException: self.not_found,
            QueueNotFound: self.missing,
            NotSubscribed: self.missing,
            EvictionPolicyError: self.unread,
            LoginRefused: self.unread,
            UnsupportedServer: self.unread,
            ConfigurationError: self.misused,
            MessageError: self.misused,
            KeyTypeError: self.conflicting,
            NoPermissionError: self.refused,
            AckqError: self.conflicting,
            redis.ConnectionError: self.unread,
            redis.TimeoutError: self.unread,
            redis.RedisError: self.failed,
            OSError: self.unread,
        }

    def queues(self, request: Request) -> Response:
        """Show all queues."""
        sample = self.watcher.sample()
        page = _page_of(request, sample)
        return self._show(
            request,
            "overview.html",
            sample=sample,
            page=page,
            live=overview.live(sample, page),
            q=_text(request, "q"),
            kind=_text(request, "kind"),
            sort=_text(request, "sort"),
        )

    def live(self, request: Request) -> Response:
        """Return what changes on an open page, as JSON."""
        sample = self.watcher.sample()
        if name := _text(request, "name"):
            return JSONResponse(overview.live_row(sample, sample.row(_text(request, "kind"), name)))
        return JSONResponse(overview.live(sample, _page_of(request, sample)))

    def queue(self, request: Request) -> Response:
        """Show one queue of any kind."""
        kind, name = _text(request, "kind") or "list", _text(request, "name")
        state = STATES.get(_text(request, "state"), "ready")
        sample = self.readable()
        row = sample.row(kind, name)
        shared: dict[str, Any] = {
            "kind": kind,
            "name": name,
            "state": state,
            "row": row,
            "bodies": _text(request, "bodies") == "1",
            "live": overview.live_row(sample, row),
            "paused": bool(row and row.reading.paused),
            "known": True,
            "totals": overview.totals(row),
            "can_pause": "pause" in kind_for(None, kind).does,
            "past": self._past(kind, name, _text(request, "span")),
        }
        settings = {"time_field": self._time_field} if kind == "list" else {}
        with kind_for(None, kind).open(self.client, name, **settings) as queue:
            if queue.divided:
                parts = [each.name for each in queue.parts()]
                values: dict[str, Any] = {"parts": parts, "part": queue.kind.part}
            else:
                values = {"stats": queue.kind.stats(queue.client)}
            if "peek" in queue.kind.does and not queue.divided:
                skip = _number(request, "skip", 0)
                group = request.query_params.get("group") if kind == "list" else None
                values["found"] = queue_details.messages_of(queue, state, skip, group)
            if kind == "list":
                values["group"] = group
                values["groups"] = queue_details.groups_of(
                    queue, _text(request, "by"), _text(request, "groups")[:MAX_SEARCH]
                )
            shown = "parts" if queue.divided else kind
        if kind in ("list", "sharded"):
            values["workers"] = queue_details.workers_of(self.client, name)
        if kind == "list":
            values["schedules"] = queue_details.schedules_of(self.client, name)
            shared["paused"] = values["stats"]["paused"]
            shared["known"] = bool(
                row or values["workers"] or queue_details.has_traces(values["stats"])
            )
        return self._show(request, f"{shown}.html", **values, **shared)

    def find(self, request: Request) -> Response:
        """Show the messages with an id, or with fields, and the progress of the search."""
        fields = forms.parsed(request.url.query)

        def text(name: str) -> str:
            return fields.get(name, [""])[-1]

        kind, name = text("kind") or "list", text("name")
        wanted = Wanted(
            kind_for("find", kind).name,
            name,
            text("q")[: search.MAX_TEXT],
            "id" if text("by") == "id" else "auto",
            None if text("within") == "all" else WITHIN,
        )
        self.readable()
        return self._renderer.stream(
            request,
            "find.html",
            kind=kind,
            name=name,
            wanted=wanted,
            where=wanted.where,
            search=self.searches.search(wanted),
            limit=search.LIMIT,
            bodies=text("bodies") == "1",
        )

    def _past(self, kind: str, name: str, span: str) -> past.Past | None:
        """Return the last hours of a queue; None if this user may not read them."""
        span = span if span in past.SPANS else past.SPAN
        try:
            rows, now = read_past(self.client, kind, name, past.SPANS[span][1])
        except NoPermissionError:
            return None
        return past.past(rows, self._log.newest(SHOWN_MARKS) or (), now, span)

    def dead(self, request: Request) -> Response:
        """Show dead letters of a queue."""
        self.readable()
        kind, name = _text(request, "kind") or "list", _text(request, "name")
        cause, before = request.query_params.get("cause"), _text(request, "before") or None
        with opened(self.client, kind, name, "dead") as queue:
            only_part(queue)
        task = request.query_params.get("task")
        page = dead_letters.page(self.client, kind, name, before, cause, task)
        total, _ = dead_letters.newest(self.client, kind, name)
        return self._show(
            request,
            "dead.html",
            kind=kind,
            name=name,
            cause=cause,
            task=task,
            before=before,
            page=page,
            total=total,
        )

    def failures(self, request: Request) -> Response:
        """Show why messages fail, in all queues or in one."""
        sample = self.readable()
        kind, name = _text(request, "kind"), _text(request, "name")
        rows = [row for row in sample.rows if not name or row.key == (kind, name)]
        failing = failures.failures(self.client, rows, time.time())
        return self._show(request, "failures.html", kind=kind, name=name, failing=failing)

    def letter(self, request: Request) -> Response:
        """Show one dead letter, with its body if that was asked for."""
        kind, name, _, letter = self._letter(request)
        return self._show(
            request,
            "letter.html",
            kind=kind,
            name=name,
            letter=letter,
            body=_text(request, "body") == "1",
        )

    def body(self, request: Request) -> Response:
        """Return the body of a dead letter, byte for byte, to be saved and not shown."""
        _, name, entry, letter = self._letter(request)
        file = _NOT_IN_FILE_NAMES.sub("_", f"{name}-{entry}")
        return Response(
            letter.body,
            media_type="application/octet-stream",
            headers={"content-disposition": f'attachment; filename="{file}.bin"'},
        )

    def _letter(self, request: Request) -> tuple[str, str, str, DeadLetter]:
        kind, name = _text(request, "kind") or "list", _text(request, "name")
        entry = _text(request, "entry")
        self.readable()
        with opened(self.client, kind, name, "dead") as queue:
            letter = dead_letters.find(only_part(queue), entry)
        if letter is None:
            raise HTTPException(404)
        return kind, name, entry, letter

    def workers(self, request: Request) -> Response:
        """Show all workers."""
        listed = queue_details.all_workers(self.client, self.readable().rows)
        return self._show(request, "workers.html", workers=listed)

    def server(self, request: Request) -> Response:
        """Show what the doctor finds without trying anything."""
        self.readable()
        return self._show(request, "server.html", servers=queue_details.servers(self.client))

    def not_found(self, request: Request, error: Exception) -> Response:
        """Answer a request for what is not there, or with a form that is not accepted."""
        status = error.status_code if isinstance(error, HTTPException) else 404
        text = PROBLEMS.get(status, "There is no such page, or it no longer exists.")
        return self._problem(request, status, text)

    def missing(self, request: Request, error: Exception) -> Response:
        """Answer a request for a queue or a consumer that does not exist."""
        return self._problem(request, 404, str(error))

    def misused(self, request: Request, error: Exception) -> Response:
        """Answer a request with an impossible name or number."""
        return self._problem(request, 400, str(error))

    def conflicting(self, request: Request, error: Exception) -> Response:
        """Answer a request that does not fit what is there, such as a key of another type."""
        return self._problem(request, 409, redact(str(error)))

    def refused(self, request: Request, error: Exception) -> Response:
        """Answer a request for what the page's Redis user may not do."""
        return self._problem(request, 403, f"The Redis user of this page may not do this: {error}")

    def unread(self, request: Request, error: Exception) -> Response:
        """Answer when Redis cannot be reached."""
        return self._problem(request, 503, redact(str(error)) or type(error).__name__, True)

    def failed(self, request: Request, error: Exception) -> Response:
        """Answer when Redis replied with an error."""
        text = redact(str(error)) or type(error).__name__
        return self._problem(request, 409 if text.startswith("WRONGTYPE") else 502, text)

    def _problem(self, request: Request, status: int, text: str, unread: bool = False) -> Response:
        if is_api(request):
            return problem(status, text)
        return self._show(request, "problem.html", status, problem=text, unread=unread)

    def readable(self) -> Sample:
        """Return the newest sample, if Redis can be read: other requests would wait in vain.

        Raises:
            redis.ConnectionError: it cannot.
        """
        sample = self.watcher.sample()
        if sample.outdated:
            raise redis.ConnectionError(sample.trouble)
        return sample


def _page_of(request: Request, sample: Sample) -> overview.Page:
    return overview.page_of(
        sample,
        _text(request, "q"),
        _text(request, "kind"),
        _text(request, "sort"),
        _number(request, "page", 1),
    )


def _text(request: Request, name: str) -> str:
    text: str = request.query_params.get(name, "")
    return text[:MAX_SEARCH]


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
