"""Forms: their tokens, which no other site knows, and their fields."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from urllib.parse import parse_qs

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ackq.errors import ConfigurationError

#: The cookie of a browser's session. It holds a random word and no login.
COOKIE = "ackq-session"
#: Longest form in bytes.
MAX_FORM = 64 * 1024
#: Most fields of a form.
MAX_FIELDS = 500
#: Seconds in which a form must arrive.
MAX_TIME = 10.0

#: Form of the ids of the log.
ENTRY = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")
_SESSION = re.compile(r"[A-Za-z0-9_-]{43}")

Fields = dict[str, list[str]]


def session_of(request: Request) -> str:
    """Return the session that the browser sent, or a new one."""
    sent = request.cookies.get(COOKIE, "")
    return sent if _SESSION.fullmatch(sent) else secrets.token_urlsafe(32)


def token_of(session: str, who: str) -> str:
    """Return the token of a session's forms. It cannot be made without the session's cookie.

    Several processes that serve one page accept each other's tokens, since they share no secret.
    """
    return hmac.new(session.encode(), f"ackq form\n{who}".encode(), hashlib.sha256).hexdigest()


def remember(response: Response, session: str, path: str, secure: bool) -> None:
    """Let the browser send the session with its next requests. No script can read it."""
    response.set_cookie(COOKIE, session, path=path, secure=secure, httponly=True, samesite="lax")


async def read_form(request: Request, who: str) -> Fields:
    """Return the fields of a form that a page of this session sent.

    Raises:
        HTTPException: 403 if its token is missing or wrong, 408 if it arrives too slowly, 413 if
            it is too long, 415 if it is no form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415)
    body = b""
    try:
        with anyio.fail_after(MAX_TIME):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_FORM:
                    raise HTTPException(413)
    except TimeoutError as error:
        raise HTTPException(408) from error
    try:
        fields = parsed(body.decode("ascii"))
    except UnicodeDecodeError as error:
        raise HTTPException(400) from error
    session = request.cookies.get(COOKIE, "")
    expected = token_of(session, who) if _SESSION.fullmatch(session) else ""
    given = fields.get("token", [""])[0]
    if not expected or not hmac.compare_digest(given.encode(errors="replace"), expected.encode()):
        raise HTTPException(403)
    return fields


def parsed(query: str) -> Fields:
    """Return the fields of a query string. Bytes that are not UTF-8 are surrogates, as in ids.

    Raises:
        ConfigurationError: there are too many.
    """
    try:
        return parse_qs(
            query, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="surrogateescape"
        )
    except ValueError as error:
        raise ConfigurationError(f"a form has at most {MAX_FIELDS} fields") from error
