"""Post troubles to a webhook, again and again until it takes them: `Posts` and `Webhook`."""

from __future__ import annotations

import json
import logging
import threading
import urllib.error
import urllib.request
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from ackq.errors import ConfigurationError
from ackq.ops.attention.model import Key, Trouble
from ackq.ops.figures import count
from ackq.ops.reads import in_time

log = logging.getLogger("ackq")
#: Seconds for which one attempt may take in all, and between two attempts: doubled up to the
#: longest.
TIMEOUT, FIRST_PAUSE, MAX_PAUSE = 10.0, 1.0, 60.0
#: Seconds after which a report is given up, and most reports that wait.
GIVE_UP, MAX_WAITING = 6 * 3600.0, 1000
#: Attempts that took longer and still go on, in threads of their own, until no other begins.
MAX_HANGING = 10
#: Statuses after which another attempt may succeed; other statuses from 400 to 499 mean that it
#: will not.
AGAIN = (408, 425, 429)
#: Seconds after which a trouble that goes on is posted again, and by what factor its number has to
#: grow to be posted before.
REPEAT, GROWN = 4 * 3600.0, 10


@dataclass(frozen=True, slots=True)
class Alert:
    """A trouble that begins, goes on or ends."""

    trouble: Trouble
    firing: bool
    text: str


class Posts:
    """Decides what is posted, from one look to the next. Not for several threads at once."""

    def __init__(self) -> None:
        #: What was posted and goes on, and when.
        self._posted: dict[Key, tuple[Trouble, float]] = {}

    def of(self, troubles: Sequence[Trouble], now: float) -> list[Alert]:
        """Return what begins, what is to be posted again, and what ended."""
        alerts = []
        for trouble in troubles:
            before, at = self._posted.get(trouble.key, (None, 0.0))
            text = trouble.text
            if before is not None:
                grown = trouble.value >= GROWN * before.value > 0
                if not grown and 0 <= now - at < REPEAT:
                    continue
                if grown:
                    text += f" (it was {count(before.value)} when this was last posted)"
            self._posted[trouble.key] = trouble, now
            alerts.append(Alert(trouble, True, text))
        for key in self._posted.keys() - {each.key for each in troubles}:
            trouble, _ = self._posted.pop(key)
            alerts.append(Alert(trouble, False, f"ended: {trouble.text}"))
        return alerts


@dataclass(frozen=True, slots=True)
class _Report:
    body: bytes
    since: float


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The other address would get what is meant for this one."""

    def redirect_request(self, *args: Any, **keywords: Any) -> None:
        return None


class Webhook:
    """Sends one report after the other, in the thread that calls `run`."""

    def __init__(self, url: str, clock: Callable[[], float]) -> None:
        """Prepare; nothing is sent.

        Args:
            url: of the webhook. It may contain a secret, so it is never logged. A user and a
                password in it are sent as basic authentication.
            clock: returns seconds that only grow.

        Raises:
            ConfigurationError: it is no URL of HTTP.
        """
        try:
            parts = urlsplit(url)
            known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            known = False
        if not known or not url.isascii() or any(each.isspace() for each in url):
            raise ConfigurationError("a webhook is a URL that begins with https:// or http://")
        self._url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self._headers = {"content-type": "application/json", "user-agent": "ackq"}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        self._bell = threading.Event()
        self._lock = threading.Lock()
        self._hanging = 0
        self._clock = clock
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._waiting: deque[_Report] = deque()
        self._failures = 0
        self._due = 0.0

    def add(self, alerts: Sequence[Alert]) -> None:
        """Add a report to what is to be sent. If too many wait, the oldest is given up."""
        with self._lock:
            if len(self._waiting) == MAX_WAITING:
                self._waiting.popleft()
                log.error("alerts: a report was given up, since %d others wait", MAX_WAITING)
            self._waiting.append(_Report(body_of(alerts), self._clock()))
        self._bell.set()

    def run(self, ended: threading.Event) -> None:
        """Send what is added, until ``ended`` is set."""
        while not ended.is_set():
            self._bell.clear()
            self.send()
            self._bell.wait(self.wait())

    def wait(self) -> float | None:
        """Return the seconds until the next attempt; None if there is nothing to send."""
        return max(0.0, self._due - self._clock()) if self._waiting else None

    def send(self) -> None:
        """Send what is due, until an attempt fails. Takes up to `TIMEOUT` for each report."""
        while self._waiting and self._clock() >= self._due:
            report = self._waiting[0]
            problem = self._attempt(report.body)
            if problem is None:
                if self._failures:
                    log.warning("alerts: the webhook works again")
                self._failures = 0
                self._due = 0.0
                self._remove(report)
                continue
            final = problem.final or self._clock() - report.since > GIVE_UP
            if not self._failures or final:
                what = "a report is given up" if final else "trying until it works"
                log.error("alerts: the webhook failed, %s: %s", what, problem.text)
            if final:
                self._remove(report)
                continue
            self._due = self._clock() + min(MAX_PAUSE, FIRST_PAUSE * 2 ** min(self._failures, 10))
            self._failures += 1

    def _remove(self, report: _Report) -> None:
        with self._lock:
            if self._waiting and self._waiting[0] is report:
                self._waiting.popleft()

    def _attempt(self, body: bytes) -> _Problem | None:
        if self._hanging >= MAX_HANGING:
            return _Problem("earlier attempts still go on", False)
        try:
            return in_time(TIMEOUT, lambda: self._post(body))
        except TimeoutError:
            return _Problem(f"no answer within {TIMEOUT:g} s", False)

    def _post(self, body: bytes) -> _Problem | None:
        request = urllib.request.Request(self._url, body, self._headers, method="POST")
        with self._lock:
            self._hanging += 1
        try:
            with self._opener.open(request, timeout=TIMEOUT):
                return None
        except urllib.error.HTTPError as error:
            with error:
                final = error.code < 500 and error.code not in AGAIN
                return _Problem(f"status {error.code}", final)
        except Exception as error:  # whatever answers; the text of some errors contains the URL
            return _Problem(type(getattr(error, "reason", None) or error).__name__, False)
        finally:
            with self._lock:
                self._hanging -= 1


@dataclass(frozen=True, slots=True)
class _Problem:
    text: str
    #: Whether another attempt would fail too.
    final: bool


def body_of(alerts: Sequence[Alert]) -> bytes:
    """Return a report in JSON. Chats show its ``text``."""
    lines = [each.text if each.firing else f"✓ {each.text}" for each in alerts]
    return json.dumps(
        {"source": "ackq", "text": "\n".join(lines), "alerts": [*map(_fields, alerts)]}
    ).encode()


def _fields(alert: Alert) -> dict[str, Any]:
    trouble = alert.trouble
    since = datetime.fromtimestamp(trouble.since or 0.0, UTC).isoformat(timespec="seconds")
    return {
        "alert": trouble.key.kind,
        "status": "firing" if alert.firing else "resolved",
        "severity": trouble.severity,
        "kind": trouble.key.queue_kind,
        "queue": trouble.key.queue,
        "value": round(trouble.value, 3) if alert.firing else 0,
        "since": since,
        "text": alert.text,
        "help": trouble.help,
    }
