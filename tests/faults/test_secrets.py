"""A password is in no error, no repr, no traceback and no warning, whatever goes wrong."""

from __future__ import annotations

import contextlib
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import redis

import ackq
from ackq.embedded import Server
from tests.facade import AsSync, Portal
from tests.servers import private_server

CANARY = "c4n4ry"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a password."""
    with private_server(tmp_path_factory.mktemp("guarded"), requirepass=CANARY) as server:
        yield server
        with redis.Redis.from_url(server.url, password=CANARY) as client:
            client.shutdown(nosave=True)


def what_is_shown(url: str, flavour: str, portal: Portal) -> tuple[str, BaseException | None]:
    """Use a queue at ``url``; return all that a log may show of it, and the error."""
    shown: list[str] = []
    raised: BaseException | None = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with contextlib.ExitStack() as stack:
                if flavour == "sync":
                    queue: Any = ackq.Queue.from_url(url, "jobs")
                    shown.append(repr(queue))
                else:
                    made = portal.call(ackq.AsyncQueue.from_url, url, "jobs")
                    shown.append(repr(made))
                    queue = AsSync(portal, made)
                stack.callback(queue.close)
                queue.push({"id": "a"})
                message = queue.pop()
                shown.append(repr(message))
                queue.ack(message)
        except Exception as error:
            raised = error
            shown += map(repr, error_chain(error))
            shown += map(str, error_chain(error))
            shown += traceback.format_exception(error)
    shown += [str(warning.message) for warning in caught]
    return "\n".join(shown), raised


def error_chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_the_right_password_is_not_shown(guarded: Server, flavour: str, portal: Portal) -> None:
    shown, error = what_is_shown(f"redis://:{CANARY}@127.0.0.1:{guarded.port}/0", flavour, portal)
    assert error is None
    assert CANARY not in shown


def test_a_wrong_password_is_not_shown(guarded: Server, flavour: str, portal: Portal) -> None:
    url = f"redis://default:wrong-{CANARY}@127.0.0.1:{guarded.port}/0"
    shown, error = what_is_shown(url, flavour, portal)
    assert isinstance(error, redis.AuthenticationError | redis.ResponseError)
    assert CANARY not in shown


def test_no_password_is_said_so(guarded: Server, flavour: str, portal: Portal) -> None:
    _, error = what_is_shown(guarded.url, flavour, portal)
    assert isinstance(error, redis.AuthenticationError)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:{}@127.0.0.1:1/0",
        "redis://127.0.0.1:1/0?password={}",
        "redis://:{}@no-such-host.invalid:6379/0",
        "rediss://user:{}@127.0.0.1:1/0",
        "unix://:{}@/no/such/socket",
    ],
)
def test_an_unreachable_server_does_not_show_it(url: str, flavour: str, portal: Portal) -> None:
    shown, error = what_is_shown(url.format(CANARY), flavour, portal)
    assert isinstance(error, redis.ConnectionError)
    assert CANARY not in shown


@pytest.mark.parametrize(
    "url",
    [
        "redis://:{}@127.0.0.1:port/0",
        "redis://:{}@127.0.0.1:99999/0",
        "redis://:{}/x@127.0.0.1:6379/0",
        "redis://:{}#x@127.0.0.1:6379/0",
        "redis://:a?{}@127.0.0.1:6379/0",
        "redis://:[{}@127.0.0.1:6379/0",
        "redis://:a@{}@127.0.0.1:port/0",
        "redis://:{}@127.0.0.1:6379/0?socket_timeout=soon",
        "http://:{}@127.0.0.1:6379/0",
        ":{}@127.0.0.1:6379",
        "redis://127.0.0.1:port/0?password={}",
        "redis://127.0.0.1/0?socket_timeout=soon&password={}",
        "unix:///no/such?db=x&password={}",
    ],
)
def test_a_bad_url_does_not_show_it(url: str, flavour: str, portal: Portal) -> None:
    shown, error = what_is_shown(url.format(CANARY), flavour, portal)
    assert isinstance(error, ackq.ConfigurationError | redis.ConnectionError)
    assert CANARY not in shown
