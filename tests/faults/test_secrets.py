"""A password is in no error, no repr, no traceback and no warning, whatever goes wrong."""

import contextlib
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import click.testing
import pytest
import redis

import ackq
from ackq.cli import FAILED, main
from ackq.embedded import Server
from ackq.worker import AsyncWorker, Worker
from tests.facade import AsSync, Portal
from tests.servers import Fleet, Survey, private_server

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


@pytest.mark.parametrize(
    ("credentials", "text"),
    [
        ("", "requires a password"),
        (":wrong@", "rejected the user name or the password"),
        ("nobody:wrong@", "rejected the user name or the password"),
    ],
)
def test_a_missing_and_a_wrong_password_have_different_errors(
    guarded: Server, flavour: str, portal: Portal, credentials: str, text: str
) -> None:
    _, error = what_is_shown(f"redis://{credentials}127.0.0.1:{guarded.port}/0", flavour, portal)
    assert isinstance(error, ackq.LoginRefused)
    assert isinstance(error, redis.AuthenticationError)
    assert text in str(error)


def test_a_password_that_the_server_does_not_have_is_said_so(
    server: Server, flavour: str, portal: Portal
) -> None:
    # By the newer protocol a server without a password accepts any.
    url = f"redis://:{CANARY}@127.0.0.1:{server.port}/0?protocol=2"
    shown, error = what_is_shown(url, flavour, portal)
    assert isinstance(error, ackq.LoginRefused)
    assert "has no password" in str(error)
    assert CANARY not in shown


def test_a_worker_ends_where_a_password_is_missing(
    guarded: Server, flavour: str, portal: Portal
) -> None:
    if flavour == "sync":
        with ackq.Queue.from_url(guarded.url, "jobs") as queue, pytest.raises(ackq.LoginRefused):
            Worker(queue, print).run()
        return

    async def work() -> None:
        async with ackq.AsyncQueue.from_url(guarded.url, "jobs") as queue:
            await AsyncWorker(queue, print).run()

    with pytest.raises(ackq.LoginRefused):
        portal.call(work)


def test_the_command_line_says_that_a_password_is_missing(guarded: Server) -> None:
    result = click.testing.CliRunner().invoke(main, ["stats", "jobs", "--url", guarded.url])
    assert result.exit_code == FAILED
    assert "ackq: the server requires a password" in result.output
    assert "redis://:PASSWORD@host:6379" in result.output


def test_tls_to_a_plain_port_ends_with_a_hint(server: Server, flavour: str, portal: Portal) -> None:
    url = f"rediss://127.0.0.1:{server.port}/0?socket_timeout=0.5&ssl_cert_reqs=none&ssl_check_hostname=false"
    _, error = what_is_shown(url, flavour, portal)
    assert isinstance(error, redis.ConnectionError | redis.TimeoutError)
    assert "try redis:// for rediss://" in str(error)


def test_a_plain_connection_to_a_tls_port_ends_with_a_hint(
    survey: Survey, fleet: Fleet, flavour: str, portal: Portal
) -> None:
    if "tls" not in survey.offers:
        pytest.skip("no server with TLS")
    pool: Any = fleet.get("tls").control.connection_pool  # type: ignore[union-attr]
    _, error = what_is_shown(
        f"redis://127.0.0.1:{pool.connection_kwargs['port']}/0", flavour, portal
    )
    assert isinstance(error, redis.ConnectionError)
    assert "try rediss:// for redis://" in str(error)


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
        "redis://user:p@{}/w:rd@127.0.0.1:bad/0",
        "redis://user:12/{}@127.0.0.1:6379/0",
        "redis://{}:12#x@127.0.0.1:6379/0",
        "redis://{}:12?x@127.0.0.1:6379/0",
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
