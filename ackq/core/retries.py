"""Which errors are temporary, and when a request is sent again."""

from __future__ import annotations

import re

from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    MovedError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

from ackq.core.effects import Request
from ackq.errors import LoginRefused, UnknownOutcome, redact

#: Temporary error replies, such as those of a failover, where the former primary replies
#: READONLY. An error reply means that nothing was applied.
TEMPORARY = (BusyLoadingError, ClusterDownError, MasterDownError, ReadOnlyError, TryAgainError)


#: Errors after which another server may have the key.
MAY_HAVE_MOVED = (
    MovedError,
    ClusterDownError,
    MasterDownError,
    ReadOnlyError,
    ConnectionError,
    TimeoutError,
    OSError,
)


_WITHIN_SCRIPTS: dict[str, type[ResponseError]] = {
    "NOREPLICAS": ResponseError,
    "OOM": OutOfMemoryError,
    "READONLY": ReadOnlyError,
}


_WRAPPED = re.compile(
    rf"^Error running script.* -(?P<text>(?P<code>{'|'.join(_WITHIN_SCRIPTS)}) .*)"
)


#: What Redis 6.2 to 8 and Valkey reply if a script, once begun, is refused a key: while a slot
#: moves, one that the script has emptied.
_HALTED = re.compile(r"access a non local key|keys were accessed during rehashing of the slot")


#: What they reply to the first write of a script if a cluster that is down still serves reads.
_DOWN = re.compile(r"\bwrite command .*while the cluster is down")


#: Most times that one request is sent.
ATTEMPTS = 6


#: Most redirections that one request follows, as in other cluster clients.
REDIRECTIONS = 16


#: Seconds before the second attempt; they double from one attempt to the next.
FIRST_PAUSE = 0.05


class ScriptHalted(ConnectionError):
    """A script ended halfway, because its slot is being moved. As after a lost reply, what it did
    is unknown.
    """


def unwrapped(error: Exception) -> Exception:
    """Return the error of a command inside a script as if it had been sent alone.

    Redis 6.2 reports it as text within a script error; later servers pass it on. No server has a
    code for what a script meets in a cluster, so those errors are recognized by their text.
    """
    if type(error) is not ResponseError:
        return error
    text = str(error)
    clearer: Exception
    if matched := _WRAPPED.search(text):
        clearer = _WITHIN_SCRIPTS[matched["code"]](matched["text"])
    elif _HALTED.search(text):
        clearer = ScriptHalted(text)
    elif _DOWN.search(text):
        clearer = ClusterDownError(text)
    else:
        return error
    clearer.__cause__ = error
    return clearer


def pause_before_resend(error: Exception, request: Request, sent: bool, attempt: int) -> float:
    """Return how many seconds to wait before ``request`` goes out again.

    Args:
        error: why the attempt failed.
        request: the request. On NOSCRIPT it is changed to send the script's text; after a lost
            reply, that is recorded in it.
        sent: whether any of it may have reached the server.
        attempt: 0 for the first.

    Raises:
        UnknownOutcome: it may have been applied, and applying it twice would do harm.
        LoginRefused: the server rejects the password, or requires one.
        Exception: ``error`` itself, if sending again would not help.
    """
    if isinstance(error, AuthenticationError):
        raise LoginRefused(_login_advice(str(error))) from error
    if isinstance(error, NoScriptError) and not request.by_text:
        request.by_text = True
        return 0.0
    if isinstance(error, AskError):
        if attempt < REDIRECTIONS:
            return 0.0
        raise error
    pause: float = FIRST_PAUSE * 2**attempt
    if isinstance(error, TEMPORARY) or str(error).startswith("BUSY "):
        if attempt + 1 < ATTEMPTS:
            return pause
        raise error
    if sent and isinstance(error, ConnectionError | TimeoutError | OSError):
        request.reply_lost = True
        if not request.resend:
            halted = isinstance(error, ScriptHalted)
            what = "the script ended halfway" if halted else "the reply was lost"
            raise UnknownOutcome(
                f"{what} ({redact(str(error)) or type(error).__name__}): the request"
                " may or may not have been applied, and was not sent again. Taken messages are"
                " redelivered after their visibility timeout; push with dedup= to push again safely"
            ) from error
        if attempt + 1 < ATTEMPTS:
            return pause
    raise error


def raise_if_unknown(error: RedisError, request: Request) -> None:
    """Raise `UnknownOutcome` if an earlier attempt of a push may have been applied.

    The error of the last attempt does not show that nothing is stored.

    Args:
        error: what the last attempt ended with.
        request: a push that may be repeated.
    """
    if request.reply_lost:
        raise UnknownOutcome(
            f"a reply was lost, and the push that was sent again failed ({redact(str(error))}): the"
            " message may or may not be stored. Push it again with the same dedup"
        ) from error


def _login_advice(reply: str) -> str:
    """Return what is wrong with the user or the password, from what the server replied."""
    if "without any password" in reply or "no password is set" in reply:
        return "the server has no password, but the URL or client has one: leave it out"
    if "invalid" in reply or "WRONGPASS" in reply:
        return "the server rejected the user name or the password: check both in the URL or client"
    return (
        "the server requires a password: put it into the URL, as in"
        " redis://:PASSWORD@host:6379 or redis://USER:PASSWORD@host:6379, or into the client"
    )
