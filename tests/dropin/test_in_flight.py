"""What is done with the messages in flight, by everything that their consumer may do meanwhile.

No server: a stand-in notes what the queue is asked to do. The asyncio class is the same code.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from ackq import dropin
from ackq.config import QueueConfig
from ackq.dropin import reports
from ackq.dropin.client import _rest
from ackq.dropin.consumers import AllInFlight, make_room
from ackq.dropin.declared import Hold
from ackq.dropin.in_flight import InFlight
from ackq.errors import LeaseLost
from ackq.queue.messages import Message


@dataclass
class StandIn:
    """A queue that records each call, and raises the error in ``fails``, if any."""

    name: str = "jobs"
    config: QueueConfig = field(default_factory=QueueConfig)
    asked: list[str] = field(default_factory=list)
    fails: Exception | None = None
    pages: list[Any] = field(default_factory=list)

    def _ask(self, verb: str, *messages: Message) -> None:
        self.asked.append(" ".join([verb, *(message.id for message in messages)]))
        if self.fails is not None:
            raise self.fails

    def __getattr__(self, verb: str) -> Any:
        return partial(self._ask, verb)

    def execute(self, operation: Any) -> None:
        self._ask(operation.__name__)

    def pop_many(self, wanted: int) -> list[Message]:
        self._ask(f"pop {wanted}")
        page = self.pages.pop(0)
        if isinstance(page, Exception):
            raise page
        return list(page)

    def __str__(self) -> str:
        return "the queue"


class Consumer:
    """The consumer that popped, as its functions look now."""

    def __init__(
        self,
        current: bool = False,
        is_over: bool = False,
        has_failed: bool = False,
        is_done: bool = False,
    ) -> None:
        self.is_current, self.ended = lambda: current, lambda: is_over
        self.failed, self.done = lambda: has_failed, lambda: is_done


def messages(*ids: str, body: bytes = b"{}") -> list[Message]:
    return [Message("jobs", message_id.encode(), body, 1, 1) for message_id in ids]


def holding(
    *ids: str,
    in_batch: bool = False,
    finished: bool = False,
    due: bool = False,
    queue: StandIn | None = None,
    **state: Any,
) -> tuple[InFlight, StandIn, list[Message]]:
    """Return what a consumer in this state holds, its queue, and the messages."""
    queue = queue or StandIn()
    in_flight, held = InFlight(queue, Hold.of(0, None)), messages(*ids)  # type: ignore[arg-type]
    in_flight.hold(held, Consumer(**state))  # type: ignore[arg-type]
    in_flight.in_batch = in_batch
    if finished:
        in_flight.done = in_flight.take_out(*held)
    if due:
        in_flight._renew_at = 0.0
    return in_flight, queue, held


def is_idle(in_flight: InFlight) -> bool:
    return not in_flight.messages and not in_flight.done and in_flight.owner is None


COMES_BACK = "the queue: the function that took 'a' failed; it is redelivered"


def test_leases_are_renewed_after_a_third_of_their_time() -> None:
    for timeout in (30.0, 0.6):
        before = time.monotonic()
        in_flight, *_ = holding("a", queue=StandIn(config=QueueConfig(visibility_timeout=timeout)))
        after = time.monotonic()
        assert before + timeout / 3 <= in_flight._renew_at <= after + timeout / 3


def test_more_messages_of_one_consumer_are_held_beside_the_first() -> None:
    in_flight, queue, (a,) = holding("a")
    owner, due = in_flight.owner, in_flight._renew_at
    (b,) = messages("b")
    in_flight.hold([b], Consumer())  # type: ignore[arg-type]
    assert list(in_flight.messages) == [a, b]
    assert (in_flight.owner, in_flight._renew_at) == (owner, due)
    assert queue.asked == []


@pytest.mark.parametrize(
    ("state", "asked"),
    [
        ({}, ["ack a b"]),
        ({"finished": True, "has_failed": True}, ["ack a b"]),
        ({"has_failed": True}, ["nack a b"]),
        ({"in_batch": True, "has_failed": True}, []),
    ],
)
def test_asking_for_the_next_message_settles_the_last(
    state: dict[str, Any], asked: list[str]
) -> None:
    in_flight, queue, held = holding("a", "b", **state)
    in_flight.settle()
    assert queue.asked == asked
    assert is_idle(in_flight) is not in_flight.in_batch
    assert list(in_flight.messages) == (held if in_flight.in_batch else [])
    in_flight.settle()
    assert queue.asked == asked


class SettledMeanwhile(OrderedDict[Message, float]):
    """Messages that another thread settles just then."""

    when = ""

    def __iter__(self) -> Iterator[Message]:
        if self.when == "before the first is found":
            self.clear()
        found = super().__iter__()
        if self.when == "as the first is found":
            self.clear()
        return found

    def __getitem__(self, message: Message) -> float:
        self.clear()
        return super().__getitem__(message)


@pytest.mark.parametrize("when", ["before the first is found", "as the first is found", "then"])
def test_another_thread_may_settle_meanwhile(when: str) -> None:
    in_flight, *_ = holding("a", "b")
    in_flight.messages = settled = SettledMeanwhile(in_flight.messages)
    settled.when = when
    assert in_flight.asked(SimpleNamespace(at=0.0)) == []  # type: ignore[arg-type]


def test_a_lost_lease_is_logged_when_the_message_is_settled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    in_flight, queue, held = holding(*"abcdef")
    for each in held[1:]:
        each.lease_lost = True
    queue.fails = LeaseLost("lost")
    in_flight.settle()
    assert caplog.messages == [
        "the queue: the lease of 'b', 'c', 'd' and 2 more ended before its work was done: it is, or"
        " will be, delivered again, unless others have settled or deleted it"
    ]
    in_flight, queue, held = holding("a")
    held[0].lease_lost = True
    in_flight.clear(held)  # not these: popped meanwhile
    assert list(in_flight.messages) == held
    in_flight.forget()
    assert is_idle(in_flight)
    assert len(caplog.messages) == 1


def test_a_mistake_of_the_program_is_no_outage() -> None:
    for does, finished in (("tend", False), ("close_at_exit", True), ("return_to_queue", False)):
        in_flight, queue, _ = holding("a", due=True, finished=finished)
        queue.fails = ZeroDivisionError()
        with pytest.raises(ZeroDivisionError):
            getattr(in_flight, does)()


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (None, []),
        (LeaseLost("lost"), []),
        (
            redis.ConnectionError("redis://:secret@h is gone"),
            [
                "the queue: 'a' could not be returned, and is redelivered when its lease ends:"
                " redis://***@h is gone"
            ],
        ),
        (
            OSError("gone"),
            ["the queue: 'a' could not be returned, and is redelivered when its lease ends: gone"],
        ),
    ],
)
def test_a_failed_consumers_message_is_returned_whatever_happens(
    error: Exception | None, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    in_flight, queue, _ = holding("a")
    queue.fails = error
    in_flight.return_to_queue()
    assert queue.asked == ["nack a"]
    assert is_idle(in_flight)
    assert caplog.messages == [COMES_BACK, *logged]
    in_flight.return_to_queue()
    assert len(queue.asked) == 1


@pytest.mark.parametrize(
    ("clean", "state", "asked"),
    [
        (True, {"current": True}, ["ack a"]),
        (False, {"current": True}, ["nack a"]),
        (True, {"current": True, "has_failed": True}, ["nack a"]),
        (False, {"current": True, "finished": True}, ["ack a"]),
        (True, {}, []),
        (False, {}, []),  # another consumer that still works
        (False, {"is_done": True, "is_over": True}, ["ack a"]),
        (True, {"is_over": True}, ["nack a"]),
        (False, {"current": True, "is_done": True}, ["nack a"]),
    ],
)
def test_closing_settles_what_is_done_and_returns_the_rest_of_consumers_that_end(
    clean: bool, state: dict[str, Any], asked: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    in_flight, queue, _ = holding("a", **state)
    in_flight.close(clean)
    assert queue.asked == asked
    assert is_idle(in_flight) is bool(asked)
    in_flight.close(clean)
    assert queue.asked == asked
    if asked == ["ack a"]:
        for error, logged in ((LeaseLost("lost"), 0), (redis.ConnectionError("gone"), 1)):
            caplog.clear()
            in_flight, queue, _ = holding("a", **state)
            queue.fails = error
            in_flight.close(clean)
            assert len(caplog.messages) == logged
            assert is_idle(in_flight)
        assert caplog.messages == [
            "the queue: 'a' could not be settled and will be redelivered: gone"
        ]


def test_the_end_of_a_program_settles_only_what_is_proved_to_be_done() -> None:
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({}, []),
        ({"is_done": True}, ["ack a"]),
        ({"finished": True, "current": True}, ["ack a"]),
        ({"is_done": True, "is_over": True}, ["ack a"]),
        ({"has_failed": True}, []),
        ({"is_done": True, "current": True}, ["ack a"]),
        ({"current": True}, []),
    ]
    for state, asked in cases:
        in_flight, queue, _ = holding("a", **state)
        in_flight.close_at_exit()
        assert queue.asked == asked, state
    InFlight(StandIn(), Hold.of(0, None)).close_at_exit()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "asked", "more"),
    [
        ({}, [], True),
        ({"due": True}, ["extend a"], True),
        ({"due": True, "finished": True}, [], True),
        ({"due": True, "is_over": True}, ["nack a"], False),
        ({"is_over": True, "is_done": True}, ["ack a"], False),
        ({"due": True, "has_failed": True}, ["nack a"], False),
        ({"due": True, "has_failed": True, "in_batch": True}, ["extend a"], True),
        ({"due": True, "has_failed": True, "finished": True}, [], True),
    ],
)
def test_what_the_renewal_does(state: dict[str, Any], asked: list[str], more: bool) -> None:
    in_flight, queue, _ = holding("a", **state)
    assert in_flight.tend() is more
    assert queue.asked == asked
    assert bool(in_flight.messages or in_flight.done) is more
    if asked == ["extend a"]:
        assert in_flight._renew_at > time.monotonic()
        in_flight.tend()
        assert queue.asked == asked


def test_a_renewal_of_nothing() -> None:
    in_flight, queue, _ = holding("a", due=True)
    in_flight.forget()
    assert in_flight.tend() is False
    in_flight.close(True)
    assert queue.asked == []


def test_what_a_renewal_that_fails_does(caplog: pytest.LogCaptureFixture) -> None:
    in_flight, queue, held = holding("a", "b", "c", due=True)
    queue.fails = redis.ConnectionError("redis://:secret@h is gone")
    assert in_flight.tend()
    assert in_flight._renew_at == 0.0  # again at the next tick
    assert caplog.messages == ["the queue: a lease could not be renewed: redis://***@h is gone"]
    caplog.clear()
    queue.fails = LeaseLost("lost")
    held[1].lease_lost = True
    assert in_flight.tend()
    assert queue.asked == ["extend a b c", "extend a c"]
    assert caplog.messages == []  # that of b was logged when it was lost
    held[0].lease_lost = True
    in_flight._renew_at, queue.fails = 0.0, None
    in_flight.tend()
    assert queue.asked[2:] == ["extend c"]


def test_a_lease_that_a_renewal_finds_lost_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @dataclass
    class Losing(StandIn):
        meanwhile: Callable[[], object] = bool

        def extend(self, *messages: Message) -> None:
            messages[0].lease_lost = True
            self.meanwhile()
            raise LeaseLost("lost")

    for in_batch, logged in ((False, 1), (True, 2)):
        in_flight, *_ = holding("a", "b", in_batch=in_batch, due=True, queue=Losing())
        assert in_flight.tend()
        assert len(caplog.messages) == logged
    assert "the lease of 'a' ended" in caplog.messages[0]
    caplog.clear()
    for meanwhile in (InFlight.forget, lambda each: each.settle_only(None)):
        queue = Losing()
        in_flight, *_ = holding("a", due=True, queue=queue)
        queue.meanwhile = partial(meanwhile, in_flight)
        in_flight.tend()
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("clean", "end", "asked"),
    [
        (True, "right", ["ack a"]),
        (True, "left", ["ack a", "forget_if_unused"]),
        (False, "left", ["nack a"]),
    ],
)
def test_the_end_of_a_batch(clean: bool, end: Any, asked: list[str]) -> None:
    queue = StandIn(config=QueueConfig(pop_from=end))
    in_flight, *_ = holding("a", in_batch=True, queue=queue, has_failed=True)
    in_flight.end_batch(clean)
    assert queue.asked == asked
    assert not in_flight.in_batch
    assert is_idle(in_flight)


def test_the_record_of_a_list_that_is_used_again_stays() -> None:
    in_flight, queue, _ = holding("a", queue=StandIn(config=QueueConfig(pop_from="left")))
    in_flight.forget()
    in_flight.end_batch(True)  # nothing was popped: it is as new as before
    for _ in range(2):
        in_flight.hold(messages("b"), Consumer())  # type: ignore[arg-type]
        in_flight.end_batch(True)
    assert queue.asked == ["ack b", "forget_if_unused", "ack b"]


def test_idle_lists_make_room_and_too_many_in_use_are_reported() -> None:
    def entries(count: int, **state: Any) -> AllInFlight:
        return {(f"{number}", "right"): holding("a", **state)[0] for number in range(count)}

    few = entries(reports.MANY_LISTS - 1)
    few["0", "right"].forget()
    make_room(few, "next", reports.Reports())
    assert len(few) == reports.MANY_LISTS - 1
    some = entries(reports.MANY_LISTS)
    for number in range(3):
        some[f"{number}", "right"].forget()
    some["2", "right"].in_batch = True
    make_room(some, "next", reports.Reports())
    assert [*some][:2] == [("2", "right"), ("3", "right")]
    assert len(some) == reports.MANY_LISTS - 2
    many = entries(reports.MANY_LISTS)
    with pytest.warns(reports.UnprotectedWarning) as caught:
        make_room(many, "next", reports.Reports())
    ((text, path, line),) = [(str(each.message), each.filename, each.lineno) for each in caught]
    assert text == reports.MANY.format(name="next", count=100)
    assert path == __file__
    assert line > 0


def test_a_take_that_is_cut_short_is_filled_up_until_the_list_is_empty() -> None:
    def filled(wanted: int, first: int, *pages: Any, body: bytes = b"x") -> tuple[int, list[str]]:
        queue = StandIn(
            pages=[
                p if isinstance(p, Exception) else messages(*("a",) * p, body=body) for p in pages
            ]
        )
        found = messages(*("a",) * first, body=body)
        rest = _rest(queue, found, wanted)  # type: ignore[arg-type]
        return first + sum(map(len, rest)), queue.asked

    assert filled(2500, 1000, 1000, 500) == (2500, ["pop 1000", "pop 500"])
    assert filled(2500, 1000, 999) == (1999, ["pop 1000"])
    assert filled(1000, 1000) == (1000, [])
    assert filled(5, 2) == (2, [])
    half = bytes(2**19)
    assert filled(5, 2, 1, body=half) == (3, ["pop 3"])
    assert filled(5, 1, body=half) == (1, [])
    assert filled(2500, 1000, redis.ConnectionError("gone")) == (1000, ["pop 1000"])


def test_waits_for_several_lists_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    r, now = dropin.Redis(redis.Redis(), hold=0), [100.0]
    taken: list[Any] = []
    found: dict[Any, list[bytes]] = {}

    def take(in_flight: InFlight, wanted: int, caller: Any, timeout: float | None = None) -> Any:
        assert (wanted, in_flight.queue.config.pop_from) == (1, "left")
        name = in_flight.queue.name
        taken.append(name if timeout is None else (name, round(timeout, 3)))
        now[0] += timeout or 0.0
        return found.get(len(taken), [])

    monkeypatch.setattr(r, "_take", take)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert r.blpop(["a", "b", "c"], 0.35) is None
    looks = ["a", "b", "c"]
    assert taken == [
        *looks,
        ("a", 0.1),
        *looks,
        ("b", 0.1),
        *looks,
        ("c", 0.1),
        *looks,
        ("a", 0.05),
        *looks,
    ]
    for at, name in ((2, b"b"), (4, b"a"), (7, b"c")):
        taken.clear()
        found = {at: [b"x"]}
        assert r.blpop(["a", "b", "c"]) == (name, b"x")
        assert len(taken) == at
