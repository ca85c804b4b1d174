"""Render pages from templates, with the values that every page has."""

from __future__ import annotations

import shlex
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

import ackq
from ackq.core.ids import usable_id
from ackq.escaping import printable
from ackq.ops.attention.model import KINDS as TROUBLES
from ackq.ops.chronicle.minutes import OTHERS
from ackq.ops.figures import place_of
from ackq.ops.kinds import KINDS
from ackq.ops.operation_log import OperationLog
from ackq.ops.samples import cells
from ackq.web import format, forms, overview, past
from ackq.web.guard import USER
from ackq.web.requests import PACE, PACES, Ask

#: Seconds after which pages whose figures do not change in place are read again.
REFRESH = 5.0
#: The same for the charts of a queue's past, which has a row a minute.
PAST_REFRESH = 30.0
#: The pages of the bar, by the name of their template.
PAGES = {
    "failures.html": "failures",
    "workers.html": "workers",
    "operations.html": "operations",
    "server.html": "server",
}


#: Marks a place in a streamed page: everything before it is sent at once.
FLUSH = Markup("<!-- -->")

R = TypeVar("R", bound=Response)


@dataclass(frozen=True, slots=True)
class Renderer:
    """Shows templates."""

    #: Whether the pages have buttons that change something.
    operate: bool
    log: OperationLog
    templates: Environment

    def show(
        self, request: Request, template: str, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """Return a page."""
        session = forms.session_of(request)
        html = self.templates.get_template(template).render(
            self._all(request, session, template, values)
        )
        return self._remembering(request, session, HTMLResponse(html, status))

    def stream(self, request: Request, template: str, **values: Any) -> StreamingResponse:
        """Return a page that is sent while it is rendered, up to each `FLUSH` in its template."""
        session = forms.session_of(request)
        shown = self._all(request, session, template, values)
        pieces = self.templates.get_template(template).generate(shown)
        return self._remembering(request, session, _StreamedPage(_chunks(pieces)))

    def _all(
        self, request: Request, session: str, template: str, values: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the values of a template, with those that every page has."""
        root = root_of(request)

        def url(path: str, **query: object) -> str:
            chosen = {key: value for key, value in query.items() if value is not None}
            text = urlencode(chosen, errors="surrogateescape")
            return f"{root}/{path}" + (f"?{text}" if text else "")

        who = who_of(request)
        done = request.query_params.get("done", "") if self.operate else ""
        return {
            "url": url,
            "here": PAGES.get(template, "queues"),
            "operate": self.operate,
            "who": who,
            "token": forms.token_of(session, who) if self.operate else "",
            "refresh_every": REFRESH,
            "past_every": PAST_REFRESH,
            "notice": self.log.entry(done) if forms.ENTRY.fullmatch(done) else None,
            **values,
        }

    def _remembering(self, request: Request, session: str, response: R) -> R:
        """Return a response that sets the cookie of a new session."""
        if self.operate and request.cookies.get(forms.COOKIE) != session:
            path = f"{root_of(request)}/"
            forms.remember(response, session, path, request.url.scheme == "https")
        return response


class _StreamedPage(StreamingResponse):
    """A page that is sent while it is rendered. If the browser disconnects, rendering stops."""

    def __init__(self, chunks: Generator[str, None, None]) -> None:
        super().__init__(chunks, media_type="text/html")
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._chunks.close()


def _chunks(pieces: Iterable[str]) -> Generator[str, None, None]:
    gathered: list[str] = []
    for piece in pieces:
        gathered.append(piece)
        if piece == FLUSH:
            yield "".join(gathered)
            gathered.clear()
    yield "".join(gathered)


def who_of(request: Request) -> str:
    """Return the user of the request, as the guard found it."""
    return str(request.scope.get(USER, ""))


def root_of(request: Request) -> str:
    """Return the prefix of the page's paths."""
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/")


@cache
def templates() -> Environment:
    """Return the templates, which escape every text. They are compiled once."""
    environment = Environment(
        loader=PackageLoader("ackq.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Invisible characters, which could reverse how a text reads, become escapes.
        finalize=lambda value: printable(value) if _is_plain(value) else value,
    )
    environment.globals |= {
        "format": format,
        "cells": cells,
        "troubles": TROUBLES,
        "place_of": place_of,
        "flush": FLUSH,
        "does": {kind.name: kind.does for kind in KINDS.values()},
        "usable_id": usable_id,
        "label_of": overview.label_of,
        "tone_of": overview.tone_of,
        "kinds": overview.LABELS_OF_KINDS,
        "spans": past.SPANS,
        "others": OTHERS,
        "ask": Ask,
        "version": ackq.__version__,
        "quote": shlex.quote,
        "paces": PACES,
        "usual_pace": PACE,
    }
    return environment


def _is_plain(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Markup)
