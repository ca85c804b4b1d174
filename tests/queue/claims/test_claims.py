"""Claims: batches that are replayed exactly, by one driver at a time."""

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import redis

from ackq import Queue
from ackq.core.claim_groups import Claim
from ackq.core.effects import Request
from ackq.errors import (
    ClaimLost,
    ConfigurationError,
    Fenced,
    LeaseLost,
    QueueNameError,
)
from ackq.queue import claims as protocol
from ackq.queue.claims_client import Claims
from ackq.queue.keys import QueueKeys
from tests.queue.claims.conftest import MakeClaims, push


def everything(claims: Claims, claim: Claim | None) -> list[bytes]:
    assert claim is not None
    return claims.read(claim.batch, 0, claim.rows)


# Claiming and reading.


def test_batches_follow_each_other_and_hold_the_messages_in_their_order(
    queue: Queue, claims: Claims
) -> None:
    bodies = push(queue, 10)
    first = claims.claim(0, messages=4)
    second = claims.claim(1, messages=100)
    assert (first, second) == (Claim(1, 4), Claim(2, 6))
    assert everything(claims, first) + everything(claims, second) == bodies
    assert claims.claim(2, messages=1) is None
    assert claims.open() == claims.readable(0, 9) == [first, second]


def test_any_part_of_a_claim_can_be_read_by_any_process(
    queue: Queue, claims: Claims, make_claims: MakeClaims
) -> None:
    bodies = push(queue, 10)
    claims.claim(0, messages=10)
    reader = make_claims()
    for start, count in itertools.product(range(11), range(11)):
        if start + count <= 10:
            assert reader.read(1, start, count) == bodies[start : start + count]
        elif count:
            with pytest.raises(ClaimLost, match=r"batch 1 has no messages \d+ to \d+") as lost:
                reader.read(1, start, count)
            assert (lost.value.group, lost.value.batch) == ("group", 1)


def test_a_number_is_higher_than_any_that_was_used(
    queue: Queue, claims: Claims, make_claims: MakeClaims
) -> None:
    push(queue, 5)
    assert claims.claim(41, messages=1) == Claim(42, 1)
    assert claims.claim(0, messages=1) == Claim(43, 1)
    claims.ack(100)
    successor = make_claims()
    successor.begin()
    assert successor.claim(0, messages=1) == Claim(101, 1)


def test_a_number_can_be_given_so_that_several_queues_use_one(queue: Queue, claims: Claims) -> None:
    assert claims.claim(0, messages=5, batch=7) == Claim(7, 0)
    assert claims.open() == claims.readable(1, 9) == []
    push(queue, 2)
    # What was answered stays: the caller may have planned a batch of no rows.
    assert claims.claim(0, messages=1, batch=7) == Claim(7, 0)
    assert claims.claim(0, messages=1, batch=8) == Claim(8, 1)
    with pytest.raises(ConfigurationError, match="batch 6 was used before"):
        claims.claim(0, messages=1, batch=6)
    assert claims.claim(0, messages=1, batch=9) == Claim(9, 1)


def test_long_claims_are_built_in_steps_and_claim_what_they_say(
    queue: Queue, claims: Claims
) -> None:
    bodies = push(queue, 7000)
    first = claims.claim(0, messages=4500)
    assert first == Claim(1, 4500)
    assert claims.read(1, 0, 4500) == bodies[:4500]
    second = claims.claim(1, messages=7000, size=20_000)
    assert second is not None
    taken = bodies[4500 : 4500 + second.rows]
    assert sum(map(len, taken[:-1])) < 20_000 <= sum(map(len, taken))
    assert everything(claims, second) == taken


def test_expired_and_due_messages_leave_their_records_for_a_claim(
    queue: Queue, claims: Claims, client: Any, name: str
) -> None:
    bodies = push(queue, 4)
    taken = queue.pop_many(2)
    queue.nack(taken[1], delay=0)
    keys = QueueKeys.of(name)
    client.zadd(keys.backup, {taken[0].key: 1})
    claim = claims.claim(0, messages=10)
    assert claim == Claim(1, 4)
    assert everything(claims, claim) == bodies
    for key in (keys.context, keys.backup, keys.delayed, keys.receives, keys.extended):
        assert not client.exists(key)
    with pytest.raises(LeaseLost):
        queue.ack(taken[0])
    assert queue.audit().findings == ()


def test_a_message_may_have_the_id_of_one_that_is_claimed(queue: Queue, claims: Claims) -> None:
    push(queue, 1)
    claims.claim(0, messages=1)
    push(queue, 1)
    message = queue.pop()
    assert message is not None
    assert claims.release() == 1
    again = queue.pop()
    assert again is not None
    assert {message.body, again.body} == {b'{"id":"0"}'}
    assert queue.ack(message, again) == 2


# Crashes and repetitions.


def steps_until(claims: Claims, calls: int, messages: int) -> None:
    """Claim, and die after a number of calls of the script."""
    steps = protocol.claim(claims._group, 0, messages, None, None)
    answer: Any = None
    while True:
        request = steps.send(answer)
        assert isinstance(request, Request)
        calls -= request.script is not None
        answer = claims._driver._request(request)
        if not calls:
            return


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_claim_that_was_cut_off_is_offered_again_and_the_rest_is_claimed_next(
    queue: Queue, claims: Claims, make_claims: MakeClaims, calls: int
) -> None:
    bodies = push(queue, 5500)
    steps_until(claims, calls, 5000)
    successor = make_claims()
    successor.begin()
    [partial] = successor.open()
    assert partial == Claim(1, min(5000, 1000 * calls))
    rest = successor.claim(1, messages=5500)
    assert rest is not None
    assert everything(successor, partial) + everything(successor, rest) == bodies


def test_the_same_driver_goes_on_with_a_claim_that_was_cut_off(
    queue: Queue, claims: Claims
) -> None:
    bodies = push(queue, 5500)
    steps_until(claims, 1, 5000)
    assert claims.claim(0, messages=5000) == Claim(1, 5000)
    assert claims.read(1, 0, 5000) == bodies[:5000]


def test_a_planned_part_of_a_claim_never_grows(queue: Queue, claims: Claims) -> None:
    push(queue, 5500)
    steps_until(claims, 1, 5000)
    assert claims.claim(1, messages=5000) == Claim(2, 4500)
    assert claims.open() == [Claim(1, 1000), Claim(2, 4500)]


def losing(claims: Claims, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the reply of the next call of a script be lost, and with it the connection."""
    sent = claims._driver._request

    def lose(request: Request) -> Any:
        reply = sent(request)
        if request.script is not None and request.script.name == script:
            monkeypatch.setattr(claims._driver, "_request", sent)
            raise redis.ConnectionError("the reply was lost")
        return reply

    monkeypatch.setattr(claims._driver, "_request", lose)


def test_a_claim_whose_last_reply_was_lost_is_returned_by_the_next_call(
    queue: Queue, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an ack of the next one would ack it too, though its messages were never read."""
    bodies = push(queue, 10)
    losing(claims, "claims/claim", monkeypatch)
    with pytest.raises(redis.ConnectionError):
        claims.claim(0, messages=5)
    assert claims.claim(0, messages=5) == Claim(1, 5)
    assert claims.read(1, 0, 5) == bodies[:5]
    assert claims.claim(1, messages=5) == Claim(2, 5)


def test_a_claim_whose_reply_was_lost_is_no_longer_returned_once_it_is_acked(
    queue: Queue, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(queue, 10)
    losing(claims, "claims/claim", monkeypatch)
    with pytest.raises(redis.ConnectionError):
        claims.claim(0, messages=5)
    assert claims.ack(1) == 5
    assert claims.claim(0, messages=5) == Claim(2, 5)


def test_a_release_that_is_repeated_spares_the_next_driver(
    queue: Queue, claims: Claims, make_claims: MakeClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(queue, 5)
    claims.claim(0, messages=2)
    losing(claims, "held/give_back", monkeypatch)
    with pytest.raises(redis.ConnectionError):
        claims.release()
    assert claims.release() == 0
    claims.begin()
    claims.claim(0, messages=2)
    losing(claims, "held/give_back", monkeypatch)
    with pytest.raises(redis.ConnectionError):
        claims.release()
    successor = make_claims()
    successor.begin()
    successor.claim(0, messages=2)
    with pytest.raises(Fenced):
        claims.release()
    assert sum(each.rows for each in successor.open()) == 2


def test_a_release_gives_back_what_is_claimed_while_it_looks(
    queue: Queue, claims: Claims, make_claims: MakeClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = push(queue, 4)
    claims.claim(0, messages=2)
    operator = make_claims()
    sent = operator._driver._request

    def interleave(request: Request) -> Any:
        reply = sent(request)
        if request.script is not None and request.script.name == "held/scan":
            with contextlib.suppress(Fenced):
                claims.claim(1, messages=2)
        return reply

    monkeypatch.setattr(operator._driver, "_request", interleave)
    operator.release()
    assert [each.body for each in queue.peek(9)] == bodies


def test_every_call_may_be_sent_twice(
    queue: Queue, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = push(queue, 9000)
    sent = claims._driver._request

    def twice(request: Request) -> Any:
        assert request.resend
        sent(request)
        return sent(request)

    monkeypatch.setattr(claims._driver, "_request", twice)
    assert claims.begin() == 3
    first = claims.claim(0, messages=5000)
    second = claims.claim(1, messages=5000)
    third = claims.claim(2, messages=5000)
    assert (first, second, third) == (Claim(1, 5000), Claim(2, 4000), None)
    claims.beat()
    claims.ack(1)
    assert claims.read(1, 0, 5000) + claims.read(2, 0, 4000) == bodies
    claims.forget(1)
    assert claims.readable(0, 9) == [second]
    claims.release()
    assert [each.body for each in queue.peek(9000)] == bodies[5000:]


# Fencing.


def test_a_second_driver_fences_the_first(
    queue: Queue, claims: Claims, make_claims: MakeClaims
) -> None:
    push(queue, 3)
    claims.claim(0, messages=1)
    claims.ack(1)
    second = make_claims()
    assert second.begin() == claims.epoch + 1
    mutating: list[Callable[[], object]] = [
        lambda: claims.claim(1, messages=1),
        lambda: claims.ack(2),
        lambda: claims.forget(1),
        claims.beat,
        claims.release,
    ]
    for call in mutating:
        with pytest.raises(Fenced, match="another process took it over") as fenced:
            call()
        assert fenced.value.group == "group"
    assert claims.readable(1, 1) == [Claim(1, 1)]  # any driver may read
    assert queue.stats().ready == 2


def test_a_fenced_driver_is_not_shown_what_the_next_one_is_claiming(
    queue: Queue, claims: Claims, make_claims: MakeClaims
) -> None:
    """It would take a part of a claim for all of it."""
    push(queue, 5500)
    successor = make_claims()
    successor.begin()
    steps_until(successor, 1, 5000)
    with pytest.raises(Fenced):
        claims.open()
    assert make_claims().open() == [Claim(1, 1000)]  # any driver may look


def test_groups_have_nothing_to_do_with_each_other(
    queue: Queue, claims: Claims, make_claims: MakeClaims
) -> None:
    push(queue, 2)
    other = make_claims("group:1")
    other.begin()
    assert claims.claim(0, messages=1) == other.claim(0, messages=1) == Claim(1, 1)
    assert claims.open() == other.open() == [Claim(1, 1)]
    assert other.release() == 1
    assert claims.ack(1) == 1


def test_a_driver_begins_first(claims: Claims, make_claims: MakeClaims) -> None:
    fresh = make_claims()
    for call in (
        lambda: fresh.claim(0, messages=1),
        lambda: fresh.ack(1),
        fresh.beat,
        lambda: fresh.forget(1),
    ):
        with pytest.raises(ConfigurationError, match="call begin"):
            call()
    claims.release()
    with pytest.raises(ConfigurationError, match="call begin"):
        claims.beat()


# Acking.


def test_acked_claims_are_kept_and_then_forgotten(
    queue: Queue, claims: Claims, client: Any, name: str
) -> None:
    bodies = push(queue, 6)
    for batch in range(3):
        claims.claim(batch, messages=2)
    assert claims.ack(2) == 4
    assert claims.ack(2) == 0
    assert claims.open() == [Claim(3, 2)]
    assert claims.readable(1, 3) == [Claim(1, 2), Claim(2, 2), Claim(3, 2)]
    assert claims.read(1, 0, 2) == bodies[:2]
    claims.forget(3)  # what is not acked stays
    assert claims.readable(1, 3) == [Claim(3, 2)]
    with pytest.raises(ClaimLost):
        claims.read(1, 0, 2)
    assert claims.ack(3, keep=0) == 2
    assert list(client.scan_iter(f"{name}*")) == [f"{name}CLAIMS:group".encode()]


def test_more_claims_than_one_call_names_are_renewed_and_released(
    queue: Queue, claims: Claims, client: Any, name: str, expire: Callable[..., None]
) -> None:
    push(queue, 1001)
    for batch in range(1001):
        claims.claim(batch, messages=1)
    expire(*range(1, 1002))
    claims.beat()
    assert client.zcount(QueueKeys.of(name).held, "-inf", 1001) == 0
    assert claims.release() == 1001
    assert queue.stats().ready == 1001


def test_an_expired_claim_that_nobody_took_is_still_its_drivers(
    queue: Queue, claims: Claims, expire: Callable[..., None]
) -> None:
    bodies = push(queue, 4)
    claims.claim(0, messages=2)
    claims.claim(1, messages=2)
    expire(1, 2)
    claims.beat()
    assert queue.pop() is None
    assert claims.read(1, 0, 2) + claims.read(2, 0, 2) == bodies
    expire(1)
    assert claims.ack(1) == 2


# What cannot be.


@pytest.mark.parametrize("group", ["", "a b", "a*", "{a}", "ü", "x" * 201, "a\n"])
def test_a_group_that_keys_or_rules_would_misread_is_refused(
    make_claims: MakeClaims, group: str
) -> None:
    with pytest.raises(QueueNameError, match="choose another name"):
        make_claims(group)


@pytest.mark.parametrize("timeout", [0, 0.5, -1, float("nan"), 10**12])
def test_a_timeout_is_one_second_or_more(make_claims: MakeClaims, timeout: float) -> None:
    with pytest.raises(ConfigurationError, match="timeout"):
        make_claims(timeout=timeout)


def test_numbers_out_of_range_are_refused(claims: Claims) -> None:
    for call in (
        lambda: claims.claim(-1, messages=1),
        lambda: claims.claim(0, messages=0),
        lambda: claims.claim(0, messages=1, size=0),
        lambda: claims.claim(5, messages=1, batch=5),
        lambda: claims.ack(-1),
        lambda: claims.ack(1, keep=-1),
        lambda: claims.read(1, -1, 1),
        lambda: claims.read(0, 0, 1),
    ):
        with pytest.raises(ConfigurationError):
            call()
