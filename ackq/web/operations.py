"""The handlers of a page that may operate: previews, forms, progress, and the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from ackq.ops.kinds.kind import Redis
from ackq.ops.operation_log import Progress, Running
from ackq.web import format, forms, requests
from ackq.web.actions import Actions
from ackq.web.jobs import Jobs
from ackq.web.renderer import Renderer, root_of, who_of
from ackq.web.requests import Ask

#: Operations of the log that are shown.
SHOWN = 100
#: Seconds between two looks at the progress of operations.
INTERVAL = 1.0


class Operating:
    """The handlers. Without ``operate`` there is only the log."""

    def __init__(
        self, client: Redis, renderer: Renderer, jobs: Jobs, changed: Callable[[], None]
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            client: of the server, or a client of its cluster.
            renderer: shows the pages.
            jobs: what runs in the background.
            changed: called when an operation has changed something.
        """
        self._renderer = renderer
        self._jobs = jobs
        self._actions = Actions(client, renderer.log, jobs)
        self._changed = changed

    def routes(self) -> list[Route]:
        """Return the routes. The only one that takes a POST is there only to operate."""
        routes = [
            Route("/operations", self.operations, name="operations"),
            Route("/progress", self.progress, name="progress"),
        ]
        if self._renderer.operate:
            routes += [
                Route("/preview", self.preview, name="preview"),
                Route("/operate", self.operate, methods=["POST"], name="operate"),
            ]
        return routes

    def operations(self, request: Request) -> Response:
        """Show what runs, and what was done."""
        running = self._running()
        return self._renderer.show(
            request,
            "operations.html",
            entries=self._renderer.log.newest(SHOWN),
            running=[shown for shown in running if shown.alive],
            states={shown.entry.id: shown for shown in running},
            live=_live(running),
            progress_of=progress_of,
        )

    def progress(self, request: Request) -> Response:
        """Return what changes on the open page of operations, as JSON."""
        return JSONResponse(_live(self._running()))

    def _running(self) -> list[Running]:
        """Return the operations without a result, on all pages; of this page's, the latest."""
        running = []
        for shown in self._renderer.log.running():
            job = self._jobs.find(shown.entry.id)
            if job is not None and not job.over.is_set():
                now = Progress(job.looked, job.moved, job.total, job.done, 0)
                shown = Running(shown.entry, now, True)
            running.append(shown)
        return running

    def preview(self, request: Request) -> Response:
        """Show what an operation would do."""
        preview = self._actions.preview(_asked(forms.parsed(request.url.query)))
        return self._renderer.show(request, "preview.html", preview=preview)

    async def operate(self, request: Request) -> Response:
        """Do what a form asks for, then show the page that it concerns."""
        who = who_of(request)
        fields = await forms.read_form(request, who)
        return await run_in_threadpool(self._operate, request, who, _asked(fields))

    def _operate(self, request: Request, who: str, ask: Ask) -> Response:
        try:
            done = self._actions.perform(who, ask)
        finally:
            self._changed()
        # The browser asks for the page with GET, so loading it again repeats nothing.
        return RedirectResponse(
            f"{root_of(request)}/{_page_after(ask, self._jobs)}&done={done}", 303
        )


def progress_of(shown: Running) -> str:
    """Return the progress of an operation, as a sentence."""
    now = shown.progress
    if now is None:
        return "begun"
    return f"{now.looked:,} of {now.total:,} looked at, {now.moved:,} {now.done}"


def _live(running: list[Running]) -> dict[str, Any]:
    alive = [shown for shown in running if shown.alive]
    values = {f"{shown.entry.id}.text": progress_of(shown) for shown in alive}
    values |= {
        f"{shown.entry.id}.looked": str(shown.progress.looked if shown.progress else 0)
        for shown in alive
    }
    return {
        "at": format.moment(time.time()),
        "interval": INTERVAL,
        "signature": "-".join(["jobs", *(shown.entry.id for shown in alive)]),
        "trouble": False,
        "values": values,
        "points": {},
    }


def _asked(fields: forms.Fields) -> Ask:
    """Return what is asked for. The field ``what`` has other fields in one text of ASCII.

    So names pass unchanged, whatever characters they contain; a person's own choices are added.
    """
    fixed = forms.parsed(fields.get("what", [""])[-1])
    chosen = {name: value for name, value in fields.items() if name in ("entry", "to", "pace")}
    return requests.read({**chosen, **fixed})


def _page_after(ask: Ask, jobs: Jobs) -> str:
    """Return the page to show when an operation has ended or begun."""
    here = Ask("", ask.kind, ask.name).query()
    if ask.action in ("redrive", "drop") and not any(
        each.name == ask.name and not each.over.is_set() for each in jobs.all()
    ):
        return f"dead?{here}"
    if ask.action in ("redrive", "drop", "stop_job"):
        return f"operations?{here}"
    if ask.id:
        return f"find?{here}&{urlencode({'q': ask.id, 'by': 'id'}, errors='surrogateescape')}"
    return f"workers?{here}" if ask.worker else f"queue?{here}"
