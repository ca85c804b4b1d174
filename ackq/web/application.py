"""`application`: the page as an ASGI application."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import redis

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"ackq.web needs {missing.name}: pip install 'ackq[web]'", name=missing.name
    ) from missing

import ackq
from ackq.core.inspected import State
from ackq.errors import AckqError, ConfigurationError, QueueNotFound, redact
from ackq.escaping import printable
from ackq.web import format, inspecting, overview
from ackq.web.dead_letters import dead_page
from ackq.web.guard import Guard
from ackq.web.watcher import Watcher

FILES = Path(__file__).parent / "static"
#: Longest text of the search field that is looked at.
LONGEST_SEARCH = 200
STATES: dict[str, State] = {"ready": "ready", "in_flight": "in_flight", "delayed": "delayed"}
_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9._-]")


def application(
    client: redis.Redis | redis.RedisCluster,
    names: Sequence[str] = (),
    *,
    hosts: Iterable[str] = (),
    users: Mapping[str, str] | None = None,
) -> Guard:
    """Return the page as an ASGI application, to be served or mounted under a prefix.

    It reads and never writes, but for one thing: while somebody looks, consumers count what they
    do, see `ackq.Queue.counters`. Links honour the prefix that the server passes as root_path.
    Nothing is sent before the first request.

    Mount it behind a login of yours, or pass ``users``: anyone who reaches the page can read
    every message.

    Args:
        client: a blocking redis-py client: standalone, Sentinel's `master_for`, or cluster.
        names: the queues that the overview shows, of any kind; RSMQ's as
            ``<namespace>:<queue>``. Defaults to all that are found.
        hosts: the names under which the page is reached, such as ``admin.example.com``. Requests
            to any other are refused, except to ``localhost`` and to IP addresses.
        users: passwords by user name, for HTTP's basic authentication. Defaults to None: none.

    Raises:
        QueueNameError: a name cannot be a queue's.
    """
    site = _Site(client, Watcher(client, names))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(site.watcher.close)

    app = Starlette(
        routes=[*site.routes(), Mount("/static", StaticFiles(directory=FILES), name="static")],
        exception_handlers={
            HTTPException: site.not_found, QueueNotFound: site.missing,
            ConfigurationError: site.misused,
            AckqError: site.failed, redis.RedisError: site.failed, OSError: site.failed,
        },
        lifespan=lifespan,
    )  # fmt: skip
    return Guard(app, hosts, users)


class _Site:
    """The handlers. They are not coroutines, so Starlette runs them in threads."""

    def __init__(self, client: redis.Redis | redis.RedisCluster, watcher: Watcher) -> None:
        self.client = client
        self.watcher = watcher
        self._templates = _templates()

    def routes(self) -> list[Route]:
        """Return the routes. Names of queues are in the query, since they may contain slashes."""
        return [
            Route("/", self.queues, name="overview"),
            Route("/live", self.live, name="live"),
            Route("/queue", self.queue, name="queue"),
            Route("/dead", self.dead, name="dead"),
            Route("/letter", self.letter, name="letter"),
            Route("/body", self.body, name="body"),
            Route("/server", self.server, name="server"),
        ]

    def queues(self, request: Request) -> Response:
        """Show all queues."""
        view = self.watcher.look()
        page = self._page(request)
        return self._show(request, "overview.html", view=view, page=page,
                          live=overview.live(view, page), q=_text(request, "q"),
                          kind=_text(request, "kind"), sort=_text(request, "sort"))  # fmt: skip

    def _page(self, request: Request) -> overview.Page:
        return overview.page_of(
            self.watcher.look(), _text(request, "q"), _text(request, "kind"),
            _text(request, "sort"), _number(request, "page", 1),
        )  # fmt: skip

    def live(self, request: Request) -> Response:
        """Return what changes on an open page, as JSON."""
        view = self.watcher.look()
        if name := _text(request, "name"):
            return JSONResponse(overview.live_row(view, view.row(_text(request, "kind"), name)))
        return JSONResponse(overview.live(view, self._page(request)))

    def queue(self, request: Request) -> Response:
        """Show one queue of any kind."""
        kind, name = _text(request, "kind") or "list", _text(request, "name")
        state = STATES.get(_text(request, "state"), "ready")
        view = self.watcher.look()
        row = view.row(kind, name)
        shared: dict[str, Any] = {
            "kind": kind, "name": name, "state": state, "view": view, "row": row,
            "bodies": _text(request, "bodies") == "1", "live": overview.live_row(view, row),
        }  # fmt: skip
        if kind == "list":
            stats, found = inspecting.list_queue(
                self.client, name, state, _number(request, "skip", 0)
            )
            workers = inspecting.workers_of(self.client, name)
            return self._show(request, "list.html", stats=stats, found=found, workers=workers,
                              **shared)  # fmt: skip
        if kind == "topic":
            consumers = sorted(row.reading.lags) if row else []
            found_topic = inspecting.topic(self.client, name, consumers)
            return self._show(request, "topic.html", topic=found_topic, **shared)
        if kind == "rsmq":
            attributes, letters = inspecting.rsmq_queue(self.client, name)
            return self._show(request, "rsmq.html", attributes=attributes, letters=letters,
                              **shared)  # fmt: skip
        if kind not in overview.KINDS:
            raise ConfigurationError(f"{kind!r} is not a kind of queue")
        if parts := inspecting.parts_of(self.client, kind, name):
            return self._show(request, "parts.html", parts=parts, **shared)
        messages, dead = inspecting.delay_queue(self.client, name, state)
        return self._show(request, "delay.html", found=messages, letters=dead, **shared)

    def dead(self, request: Request) -> Response:
        """Show dead letters of a list queue."""
        name, cause = _text(request, "name"), request.query_params.get("cause")
        after = _text(request, "after") or None
        with inspecting.open_queue(self.client, name) as queue:
            page = dead_page(queue, after, cause)
            total = queue.stats().dead
        return self._show(request, "dead.html", name=name, cause=cause, after=after, page=page,
                          total=total)  # fmt: skip

    def letter(self, request: Request) -> Response:
        """Show one dead letter, with its body if that was asked for."""
        name, entry = _text(request, "name"), _text(request, "entry")
        letter = inspecting.dead_letter(self.client, name, entry)
        if letter is None:
            raise HTTPException(404)
        return self._show(request, "letter.html", name=name, letter=letter,
                          body=_text(request, "body") == "1")  # fmt: skip

    def body(self, request: Request) -> Response:
        """Return the body of a dead letter, byte for byte, to be saved and not shown."""
        name, entry = _text(request, "name"), _text(request, "entry")
        letter = inspecting.dead_letter(self.client, name, entry)
        if letter is None:
            raise HTTPException(404)
        file = _NOT_IN_FILE_NAMES.sub("_", f"{name}-{entry}")
        return Response(
            letter.body, media_type="application/octet-stream",
            headers={"content-disposition": f'attachment; filename="{file}.bin"'},
        )  # fmt: skip

    def server(self, request: Request) -> Response:
        """Show what the doctor finds without trying anything."""
        return self._show(request, "server.html", servers=inspecting.servers(self.client))

    def not_found(self, request: Request, error: Exception) -> Response:
        """Answer a request for what is not there."""
        status = error.status_code if isinstance(error, HTTPException) else 404
        return self._problem(request, status, "There is no such page, or it is there no more.")

    def missing(self, request: Request, error: Exception) -> Response:
        """Answer a request for a queue that does not exist."""
        return self._problem(request, 404, str(error))

    def misused(self, request: Request, error: Exception) -> Response:
        """Answer a request with an impossible name or number."""
        return self._problem(request, 400, str(error))

    def failed(self, request: Request, error: Exception) -> Response:
        """Answer when Redis did not."""
        return self._problem(request, 503, redact(str(error)) or type(error).__name__)

    def _problem(self, request: Request, status: int, text: str) -> Response:
        return self._show(request, "problem.html", status, problem=text)

    def _show(
        self, request: Request, template: str, status: int = 200, **values: Any
    ) -> HTMLResponse:
        root: str = request.scope.get("root_path", "").rstrip("/")

        def url(path: str, **query: object) -> str:
            chosen = {key: value for key, value in query.items() if value is not None}
            return f"{root}/{path}" + (f"?{urlencode(chosen)}" if chosen else "")

        html = self._templates.get_template(template).render(
            url=url, here="server" if template == "server.html" else "queues", **values
        )
        return HTMLResponse(html, status)


def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("ackq.web"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
        # Invisible characters, which could reverse how a text reads, become escapes.
        finalize=lambda value: printable(value) if _is_plain(value) else value,
    )  # fmt: skip
    environment.globals |= {
        "format": format, "cells": overview.cells, "kinds": overview.KINDS,
        "version": ackq.__version__, "quote": shlex.quote,
    }  # fmt: skip
    return environment


def _is_plain(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Markup)


def _text(request: Request, name: str) -> str:
    text: str = request.query_params.get(name, "")
    return text[:LONGEST_SEARCH]


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
