"""Send alerts to a webhook, again and again until it takes them: `Webhook`."""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from ackq.errors import ConfigurationError
from ackq.ops.alerts import Alert

log = logging.getLogger("ackq")
#: Seconds for which one attempt may take, and between two attempts: doubled up to the longest.
TIMEOUT, FIRST_PAUSE, MAX_PAUSE = 10.0, 1.0, 60.0
#: Seconds after which a report is given up, and most reports that wait.
GIVE_UP, MAX_WAITING = 6 * 3600.0, 1000
#: Statuses after which another attempt may succeed; other statuses from 400 to 499 mean that it
#: will not.
AGAIN = (408, 425, 429)


@dataclass(frozen=True, slots=True)
class _Report:
    body: bytes
    since: float


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The other address would get what is meant for this one."""

    def redirect_request(self, *args: Any, **keywords: Any) -> None:
        return None


class Webhook:
    """Sends one report after the other. Not for several threads at once."""

    def __init__(self, url: str, clock: Callable[[], float]) -> None:
        """Prepare; nothing is sent.

        Args:
            url: of the webhook. It may contain a secret, so it is never logged.
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
        self._url = url
        self._clock = clock
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._waiting: deque[_Report] = deque()
        self._failures = 0
        self._due = 0.0

    def add(self, alerts: Sequence[Alert]) -> None:
        """Add a report to what is to be sent. If too many wait, the oldest is given up."""
        if len(self._waiting) == MAX_WAITING:
            self._waiting.popleft()
            log.error("alerts: a report was given up, since %d others wait", MAX_WAITING)
        self._waiting.append(_Report(body_of(alerts), self._clock()))

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
                self._waiting.popleft()
                continue
            final = problem.final or self._clock() - report.since > GIVE_UP
            if not self._failures or final:
                what = "a report is given up" if final else "trying until it works"
                log.error("alerts: the webhook failed, %s: %s", what, problem.text)
            if final:
                self._waiting.popleft()
                continue
            self._due = self._clock() + min(MAX_PAUSE, FIRST_PAUSE * 2 ** min(self._failures, 10))
            self._failures += 1

    def _attempt(self, body: bytes) -> _Problem | None:
        headers = {"content-type": "application/json", "user-agent": "ackq"}
        request = urllib.request.Request(self._url, body, headers, method="POST")
        try:
            with self._opener.open(request, timeout=TIMEOUT):
                return None
        except urllib.error.HTTPError as error:
            with error:
                final = error.code < 500 and error.code not in AGAIN
                return _Problem(f"status {error.code}", final)
        except (OSError, ValueError) as error:  # the text of some errors contains the URL
            return _Problem(type(getattr(error, "reason", None) or error).__name__, False)


@dataclass(frozen=True, slots=True)
class _Problem:
    text: str
    #: Whether another attempt would fail too.
    final: bool


def body_of(alerts: Sequence[Alert]) -> bytes:
    """Return a report in JSON. Chats show its ``text``."""
    lines = [each.text if each.firing else f"✓ {each.text}" for each in alerts]
    return json.dumps(
        {
            "source": "ackq",
            "text": "\n".join(lines),
            "alerts": [
                {
                    "alert": each.key.alert,
                    "status": "firing" if each.firing else "resolved",
                    "kind": each.key.kind,
                    "queue": each.key.queue,
                    "value": round(each.value, 3),
                    "since": datetime.fromtimestamp(each.since, UTC).isoformat(timespec="seconds"),
                    "text": each.text,
                }
                for each in alerts
            ],
        }
    ).encode()
