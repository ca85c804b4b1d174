"""What drivers send, read, repeat and give up, on connections that lead nowhere."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from redis.exceptions import (
    AskError,
    MovedError,
    NoScriptError,
    ResponseError,
    TryAgainError,
)

from ackq import scripts
from ackq.config import Confirm
from ackq.core.effects import Clock, Operation, Pipeline, Request, Sleep
from ackq.core.io import driver, driver_async, together, together_async
from ackq.errors import UnknownOutcome

from .test_routes import Flavour


class Server:
    """Answers all connections from one list, and notes what happens in which order."""

    def __init__(self, on: Flavour, *answers: Any) -> None:
        self.answers = list(answers)
        self.seen: list[str] = []
        self.wires: list[Any] = []
        self.refused = 0
        server = self

        class Line(on.wire):  # type: ignore[misc, name-defined]
            def __init__(self, **settings: Any) -> None:
                super().__init__(**settings)
                self.answers = server.answers
                if server.refused:
                    self.refuses = redis.ConnectionError("refused")

            def sent(self, packed: Any) -> None:
                text = b"".join(packed).decode() if isinstance(packed, list) else " ".join(packed)
                words = [each for each in text.split("\r\n") if each and each[0] not in "*$"]
                where = "" if self.host == "h" else f"{self}: "
                server.seen.append(where + " ".join(words))

            def opened(self) -> None:
                server.wires.append(self)

            def answer(self) -> Any:
                server.seen.append("<")
                return super().answer()

        pool = on.library.ConnectionPool(connection_class=Line, host="h")
        self.route = on.routes.SingleRoute(on.library.Redis(connection_pool=pool))
        self.driver = (driver_async if on.is_async else driver).Driver(self.route)

    @property
    def idle(self) -> int:
        pools = (self.route._home, *self.route._elsewhere.values())
        return sum(len(pool._idle) for pool in pools)

    @property
    def connections(self) -> int:
        """How many are open. Those that failed were closed at once."""
        assert not any(wire.waited_for_its_end for wire in self.wires)
        return sum(wire.is_open for wire in self.wires)


@pytest.fixture
def on(flavour: str) -> Iterator[Flavour]:
    found = Flavour(flavour)
    with found.runner:
        yield found


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """How long the driver sleeps; it does not."""
    found: list[float] = []
    asleep = asyncio.sleep

    async def note(seconds: float, result: Any = None) -> Any:
        if seconds:
            found.append(seconds)
        return await asleep(0, result)

    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "sleep", note)
        patch.setattr(time, "sleep", found.append)
        yield found


def ask(**settings: Any) -> Operation[Any]:
    return (yield Request((b"GET", "k"), **settings))


def test_a_reply_and_an_error_reply_leave_the_connection_for_the_next(
    on: Flavour, pauses: list[float]
) -> None:
    server = Server(on, b"v", ResponseError("ERR"), b"w")
    assert on(server.driver.run, ask()) == b"v"
    with pytest.raises(ResponseError, match=r"^ERR$"):
        on(server.driver.run, ask(resend=True))
    assert on(server.driver.run, ask()) == b"w"
    assert server.seen == ["GET k", "<"] * 3
    assert (server.idle, server.connections, len(server.wires), pauses) == (1, 1, 1, [])


@pytest.mark.parametrize(
    "error", [redis.ConnectionError("gone"), redis.TimeoutError("late"), OSError("gone")], ids=repr
)
def test_a_lost_reply_is_asked_for_six_times_with_doubling_pauses(
    on: Flavour, pauses: list[float], error: Exception
) -> None:
    server = Server(on, *[error] * 6, b"v")
    with pytest.raises(type(error)):
        on(server.driver.run, ask(resend=True))
    assert server.seen == ["GET k", "<"] * 6
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8]
    assert (server.idle, server.connections) == (0, 0)
    server = Server(on, error, b"v")
    assert on(server.driver.run, ask(resend=True)) == b"v"
    assert (server.idle, server.connections, len(server.wires)) == (1, 1, 2)
    server = Server(on, error, b"v")
    with pytest.raises(UnknownOutcome):
        on(server.driver.run, ask())
    assert server.seen == ["GET k", "<"]


def test_what_was_not_sent_is_an_error_at_once(on: Flavour, pauses: list[float]) -> None:
    server = Server(on, b"v")
    server.refused = 1
    for resend in (True, False):
        with pytest.raises(redis.ConnectionError, match="refused"):
            on(server.driver.run, ask(resend=resend))
    assert (server.seen, pauses, server.idle) == ([], [], 0)


def test_a_server_that_is_busy_is_asked_again_on_the_same_connection(
    on: Flavour, pauses: list[float]
) -> None:
    server = Server(on, TryAgainError("TRYAGAIN"), ResponseError("BUSY x"), b"v")
    assert on(server.driver.run, ask()) == b"v"
    assert pauses == [0.05, 0.1]
    assert (server.idle, len(server.wires)) == (1, 1)


def test_redirections_are_followed_without_a_pause(on: Flavour, pauses: list[float]) -> None:
    server = Server(on, MovedError("5 a:1"), AskError("5 b:2"), b"OK", b"v", b"w")
    assert on(server.driver.run, ask()) == b"v"
    assert on(server.driver.run, ask()) == b"w"
    assert server.seen == [
        "GET k",
        "<",
        "a:1: GET k",
        "<",
        "b:2: ASKING",
        "<",
        "b:2: GET k",
        "<",
        "a:1: GET k",
        "<",
    ]
    assert pauses == []
    assert (server.idle, server.connections) == (3, 3)


def test_a_failed_asking_is_no_lost_reply(on: Flavour, pauses: list[float]) -> None:
    server = Server(on, AskError("5 b:2"), redis.ConnectionError("gone"))
    with pytest.raises(redis.ConnectionError, match="gone"):
        on(server.driver.run, ask())
    assert server.seen == ["GET k", "<", "b:2: ASKING", "<"]
    assert (server.idle, server.connections) == (1, 1)


def test_a_script_that_the_server_does_not_know_is_sent_as_text(
    on: Flavour, pauses: list[float]
) -> None:
    script = scripts.load("drop")
    server = Server(on, NoScriptError("NOSCRIPT"), 1)
    assert on(server.driver.run, ask(script=script)) == 1
    first, _, second, _ = server.seen
    assert first == f"EVALSHA {script.sha.decode()} GET k"
    assert second.startswith("EVAL ")
    assert pauses == []


def test_both_replies_of_a_confirmed_request_are_read(on: Flavour, pauses: list[float]) -> None:
    settings = {"confirm": Confirm(2, timeout=0.5)}
    failed = ResponseError("ERR")
    for answers, result in (((b"v", 2), (b"v", 2)), ((b"v", failed), (b"v", failed))):
        server = Server(on, *answers)
        assert on(server.driver.run, ask(**settings)) == result
        assert server.seen == ["GET k WAIT 2 500", "<", "<"]
        assert server.idle == 1
    server = Server(on, failed, 2)
    with pytest.raises(ResponseError, match=r"^ERR$"):
        on(server.driver.run, ask(**settings))
    assert server.seen == ["GET k WAIT 2 500", "<", "<"]
    assert server.idle == 1
    server = Server(on, b"v", redis.ConnectionError("gone"))
    with pytest.raises(UnknownOutcome):
        on(server.driver.run, ask(**settings))
    assert server.idle == 0


def ask_at_once(**settings: Any) -> Operation[Any]:
    return (yield Pipeline((Request((b"GET", "k"), **settings),)))


@pytest.mark.parametrize("steps", [ask, ask_at_once])
def test_an_interrupted_exchange_closes_its_connection(
    on: Flavour, pauses: list[float], steps: Callable[..., Operation[Any]]
) -> None:
    server = Server(on, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        on(server.driver.run, steps(resend=True))
    assert (server.idle, server.connections) == (0, 0)
    noted: list[Exception] = []  # a cluster's route looks at the slots again
    server.refused, server.route.note = 1, noted.append
    with pytest.raises(redis.ConnectionError):
        on(server.driver.run, steps())
    assert [str(each) for each in noted] == ["refused"]


def test_an_operation_gets_the_time_pauses_and_errors(on: Flavour, pauses: list[float]) -> None:
    def operation() -> Operation[Any]:
        before = time.monotonic()
        now = yield Clock()
        assert before <= now <= time.monotonic()
        assert (yield Sleep(1.5)) is None
        try:
            yield Request((b"GET", "k"))
        except ResponseError as error:
            return f"{error} then {(yield Request((b'GET', 'l')))}"

    server = Server(on, ResponseError("ERR"), "v")
    assert on(server.driver.run, operation()) == "ERR then v"
    assert pauses == [1.5]


# --- several together ---------------------------------------------------------------------


def named(name: str, *more: str, **settings: Any) -> Operation[Any]:
    found = [(yield Request((b"GET", name), **settings))]
    for each in more:
        found.append((yield Request((b"GET", each), **settings)))
    return found if more else found[0]


def test_requests_are_sent_two_groups_ahead() -> None:
    server = Server(Flavour("sync"), *"abcdex")
    operations = [named("a"), named("b"), named("c", "x"), named("d"), named("e")]
    assert server.driver.run_all(iter(operations), 2) == ["a", "b", ["c", "x"], "d", "e"]
    assert server.seen == [
        "GET a GET b",
        "GET c GET d",
        "<",
        "<",
        "GET e",
        "<",
        "<",
        "GET x",
        "<",
        "<",
    ]
    assert (server.idle, len(server.wires)) == (1, 1)
    assert server.driver.run_all([], 2) == []


def test_errors_of_operations_that_run_together_are_their_results() -> None:
    def failing() -> Operation[Any]:
        yield Clock()
        raise ValueError("x")

    server = Server(
        Flavour("sync"), "a", ResponseError("ERR"), NoScriptError("NOSCRIPT"), "d", "again"
    )
    found = server.driver.run_all([named("a"), named("b"), named("c"), named("d"), failing()])
    assert (found[0], str(found[1]), found[2:4]) == ("a", "ERR", ["again", "d"])
    assert isinstance(found[4], ValueError)
    assert server.seen[0] == "GET a GET b GET c GET d"
    assert server.seen[5:] == ["GET c", "<"]
    server = Server(Flavour("sync"), "a", redis.ConnectionError("gone"))
    with pytest.raises(redis.ConnectionError, match="gone"):
        server.driver.run_all([named("a"), named("b")])
    assert (server.idle, server.connections) == (0, 0)


def run_all(on: Flavour, *prepared: tuple[Server, Operation[Any]]) -> list[Any]:
    run: Callable[..., Any] = together_async.run_all if on.is_async else together.run_all
    found: list[Any] = on(run, [(server.driver, steps) for server, steps in prepared])
    return found


def test_what_goes_to_one_node_is_sent_at_once(on: Flavour, pauses: list[float]) -> None:
    def slowly(name: str) -> Operation[Any]:
        yield Clock()
        return (yield from named(name))

    one, two = Server(on, *"abx"), Server(on, *"cde")
    found = run_all(
        on,
        (one, slowly("a")),
        (two, named("c")),
        (one, named("b", "x")),
        (two, named("d")),
        (two, named("e")),
    )
    assert found == ["a", "c", ["b", "x"], "d", "e"]
    assert one.seen == ["GET a GET b", "<", "<", "GET x", "<"]
    assert two.seen == ["GET c GET d GET e", "<", "<", "<"]
    for server in (one, two):
        assert (server.idle, len(server.wires)) == (1, 1)
    alone = Server(on, "a")
    assert run_all(on, (alone, named("a"))) == ["a"]
    assert run_all(on) == []


def test_a_connection_that_fails_halfway_fails_what_was_not_answered(
    on: Flavour, pauses: list[float]
) -> None:
    for error in (redis.ConnectionError("gone"), redis.TimeoutError("late")):
        server = Server(on, "a", error, "b", "c")
        found = run_all(
            on,
            (server, named("a")),
            (server, named("b", resend=True)),
            (server, named("c", resend=True)),
            (server, named("d")),
        )
        assert found[:3] == ["a", "b", "c"]
        assert isinstance(found[3], UnknownOutcome)
        assert server.seen[:3] == ["GET a GET b GET c GET d", "<", "<"]
        assert sorted(server.seen[3:]) == ["<", "<", "GET b", "GET c"]
        assert (server.wires[0].is_open, server.connections) == (False, server.idle)


def test_error_replies_concern_one_operation_each(on: Flavour, pauses: list[float]) -> None:
    server = Server(on, ResponseError("ERR"), MovedError("5 a:1"), "c", "b")
    found = run_all(on, *((server, named(each)) for each in "abc"))
    assert (str(found[0]), found[1:]) == ("ERR", ["b", "c"])
    assert server.seen[4:] == ["a:1: GET b", "<"]


def test_a_node_that_refuses_connections_fails_what_was_to_be_sent(
    on: Flavour, pauses: list[float]
) -> None:
    server, other = Server(on), Server(on, "x", "y")
    server.refused = 1
    found = run_all(
        on, (server, named("a")), (other, named("x")), (server, named("b")), (other, named("y"))
    )
    assert [type(found[at]) for at in (0, 2)] == [redis.ConnectionError] * 2
    assert [found[at] for at in (1, 3)] == ["x", "y"]
