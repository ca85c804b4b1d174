"""What every request must pass, and what every response carries: `Guard`."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Mapping

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ackq.core.hosts import KnownHosts

#: Seconds before a wrong password is refused.
REFUSAL_DELAY = 0.5
#: In the state of a request whose password is refused: its connection may be closed.
REFUSED = "ackq.refused"
#: No inline code, no other host, no frame. Text that slipped through as markup would not run.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With no-referrer, browsers would not name the origin of this page's own forms either.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
#: Pages show what may be secret.
NOT_STORED = "no-store"
#: The key of a request's scope that holds the user's name, for the handlers.
USER = "ackq.user"
#: Longest name that is recorded.
MAX_NAME = 100
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Guard:
    """ASGI middleware: checks the host, the method, the password and the origin; adds `HEADERS`.

    The Host header must be an IP address, ``localhost`` or one of ``hosts``. A page of another
    site, whose name was made to point to this server (DNS rebinding), sends that name, so it
    gets nothing. A POST must come from a page of the same origin.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Iterable[str] = (),
        users: Mapping[str, str] | None = None,
        *,
        operate: bool = False,
        user_header: str | None = None,
    ) -> None:
        """Prepare.

        Args:
            app: what is protected.
            hosts: further names under which the page is reached, without ports.
            users: passwords by user name. None: no password is asked for.
            operate: let POST pass, if it comes from a page of the same origin. Defaults to False:
                only GET and HEAD pass.
            user_header: the header in which a proxy in front names the user. A POST without it
                is refused. Defaults to None.
        """
        self._app = app
        self._hosts = KnownHosts(hosts)
        self._users = (
            None
            if users is None
            else {
                hashlib.sha256(f"{name}:{password}".encode()).digest(): name
                for name, password in users.items()
            }
        )
        self._methods = ("GET", "HEAD", *(["POST"] if operate else []))
        self._user_header = user_header

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", NOT_STORED)
            await send(message)

        scope = dict(scope)
        refusal = await self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_with_headers)

    async def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self._hosts.allow(headers.getlist("host")):
            return PlainTextResponse(
                "This name is not one of the page's. Pass it with --host, or in hosts.\n", 421
            )
        if scope["method"] not in self._methods:
            return PlainTextResponse(
                "The page only reads.\n", 405, {"allow": ", ".join(self._methods)}
            )
        user = self._user_of(headers.get("authorization", ""))
        if self._users is not None and user is None:
            scope.setdefault("state", {})[REFUSED] = True
            await anyio.sleep(REFUSAL_DELAY if "authorization" in headers else 0)
            return PlainTextResponse(
                "A user name and a password are needed.\n",
                401,
                {"www-authenticate": 'Basic realm="ackq", charset="UTF-8"'},
            )
        forwarded = headers.get(self._user_header, "") if self._user_header else ""
        scope[USER] = (user or forwarded or _logged_in(scope))[:MAX_NAME]
        if scope["method"] != "POST":
            return None
        if not _is_same_origin(headers):
            return PlainTextResponse("A form of another site is refused.\n", 403)
        if self._user_header and not forwarded:
            return PlainTextResponse(f"The header {self._user_header} is missing.\n", 403)
        return None

    def _user_of(self, authorization: str) -> str | None:
        """Return the user whose password this is."""
        scheme, _, encoded = authorization.partition(" ")
        try:
            given = base64.b64decode(encoded.strip(), validate=True)
        except (binascii.Error, ValueError):
            return None
        digest = hashlib.sha256(given).digest()
        # Compare with every user's, so that the time shows nothing.
        users = self._users or {}
        names = [name for each, name in users.items() if hmac.compare_digest(digest, each)]
        return names[0] if scheme.lower() == "basic" and names else None


def _is_same_origin(headers: Headers) -> bool:
    """Return whether a page of this origin sent the form. A request without Origin is refused."""
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin, host = headers.getlist("origin"), headers["host"].lower()
    scheme, _, sender = "".join(origin).lower().partition("://")
    if len(origin) != 1 or scheme not in _DEFAULT_PORTS:
        return False
    port = _DEFAULT_PORTS[scheme]
    return sender.removesuffix(port) == host.removesuffix(port)


def _logged_in(scope: Scope) -> str:
    """Return the user that an application around this page has logged in, or the address.

    Starlette's users have a ``display_name``; any other object is shown as text, as Django's are.
    """
    user = scope.get("user")
    if user is not None and getattr(user, "is_authenticated", True):
        return str(getattr(user, "display_name", "") or user)
    host, _ = scope.get("client") or ("unknown address", 0)
    return f"anonymous at {host}"
