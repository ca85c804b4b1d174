"""What every request must pass, and what every response carries: `Guard`."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Seconds before a wrong password is refused.
REFUSAL_DELAY = 0.5
#: No inline code, no other host, no frame. Text that slipped through as markup would not run.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
#: Pages show what may be secret.
NOT_STORED = "no-store"


class Guard:
    """ASGI middleware: checks the host, the method and the password; adds `HEADERS`.

    The Host header must be an IP address, ``localhost`` or one of ``hosts``. A page of another
    site, whose name was made to point to this server (DNS rebinding), sends that name, so it
    gets nothing.
    """

    def __init__(
        self, app: ASGIApp, hosts: Iterable[str] = (), users: Mapping[str, str] | None = None
    ) -> None:
        """Prepare.

        Args:
            app: what is protected.
            hosts: further names under which the page is reached, without ports.
            users: passwords by user name. None: no password is asked for.
        """
        self._app = app
        self._hosts = {"localhost", *(host.lower().rstrip(".") for host in hosts)}
        self._users = None if users is None else {
            hashlib.sha256(f"{name}:{password}".encode()).digest()
            for name, password in users.items()
        }  # fmt: skip

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

        refusal = await self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_with_headers)

    async def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self._is_known(headers.getlist("host")):
            return PlainTextResponse(
                "This name is not one of the page's. Pass it with --host, or in hosts.\n", 421
            )
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("The page only reads.\n", 405, {"allow": "GET, HEAD"})
        if self._users is not None and not self._is_user(headers.get("authorization", "")):
            await anyio.sleep(REFUSAL_DELAY if "authorization" in headers else 0)
            return PlainTextResponse(
                "A user name and a password are needed.\n", 401,
                {"www-authenticate": 'Basic realm="ackq", charset="UTF-8"'},
            )  # fmt: skip
        return None

    def _is_known(self, hosts: list[str]) -> bool:
        if len(hosts) != 1 or "@" in hosts[0]:
            return False
        try:
            host = urlsplit(f"//{hosts[0]}").hostname or ""
        except ValueError:
            return False
        return host.rstrip(".") in self._hosts or is_address(host)

    def _is_user(self, authorization: str) -> bool:
        scheme, _, encoded = authorization.partition(" ")
        try:
            given = base64.b64decode(encoded.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        digest = hashlib.sha256(given).digest()
        # Compare with every user's, so that the time shows nothing.
        found = [hmac.compare_digest(digest, each) for each in self._users or ()]
        return scheme.lower() == "basic" and any(found)


def is_address(host: str) -> bool:
    """Return whether this is an IP address and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
