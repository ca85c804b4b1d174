"""What operations of a topic do between two requests, with no server."""

from __future__ import annotations

import math
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from ackq.config import Confirm
from ackq.core.effects import Operation, Request, Sleep
from ackq.core.io.outside import SYSTEM
from ackq.errors import (
    ConfigurationError,
    IndexTaken,
    KeyTypeError,
    LeaseLost,
    NotConfirmed,
    NotSubscribed,
    PlaceLost,
    PublishContention,
    UnknownOutcome,
)
from ackq.staging.keys import StagingKeys
from ackq.staging.recovery import UnfinishedCommits
from ackq.topic import place, publish, settle, staged_rows
from ackq.topic.consume import consume
from ackq.topic.keys import TopicKeys
from ackq.topic.messages import Batch
from ackq.topic.spec import MAX_PAUSE, MAX_SLACK, Guess, TopicConfig, TopicSpec, pause
from tests.steps import play


def _spec(**settings: Any) -> TopicSpec:
    return TopicSpec("t", TopicKeys.of("t"), TopicConfig(**settings), outside=SYSTEM)


def _publish(spec: TopicSpec, confirm: Confirm | None = None) -> tuple[Operation[int], Request]:
    steps = publish.publish(spec, {"id": "a"}, None, 60.0, confirm)
    request = next(steps)
    assert isinstance(request, Request)
    return steps, request


def test_the_settings_of_a_topic_at_their_limits() -> None:
    TopicConfig(max_messages=1, max_body_bytes=1, publish_attempts=1)
    TopicConfig(max_messages=2**53 - 1, max_body_bytes=512 * 1024 * 1024)
    for wrong in (
        {"max_messages": 0},
        {"max_messages": 2**53},
        {"max_body_bytes": 0},
        {"max_body_bytes": 512 * 1024 * 1024 + 1},
        {"publish_attempts": 0},
    ):
        with pytest.raises(ConfigurationError):
            TopicConfig(**wrong)  # type: ignore[arg-type]


def test_a_place_is_an_index_below_2_to_the_53() -> None:
    for wrong in (0, 2**53, True, "newest", 1.0):
        with pytest.raises(ConfigurationError, match="a place is"):
            next(place.seek(_spec(), "c", wrong))  # type: ignore[arg-type]
    for to, sent in ((1, 0), (2**53 - 1, 2**53 - 2), ("end", "end")):
        request = next(place.seek(_spec(), "c", to))  # type: ignore[arg-type]
        assert isinstance(request, Request)
        assert request.args[5] == sent


@pytest.mark.parametrize(("first", "looked_from"), [(b"6", 6), (b"7", 1), (None, 1), (b"5", 5)])
def test_a_trimmed_topic_begins_at_most_one_after_its_newest_index(
    first: bytes | None, looked_from: int
) -> None:
    spec = _spec()
    steps = place.oldest(spec)
    next(steps)
    if first == b"6":  # all were trimmed
        with pytest.raises(StopIteration) as ended:
            steps.send([b"5", first])
        assert ended.value.value is None
        return
    request = steps.send([b"5", first])
    assert isinstance(request, Request)
    assert request.args[1] == spec.keys.messages(looked_from - 1, 1)[0]


def test_a_key_that_holds_no_index_is_an_error_of_the_topic() -> None:
    for found in ([b"x", b"1"], [b"1", b"x"]):
        steps = place.position(_spec(), "c")
        next(steps)
        with pytest.raises(KeyTypeError, match="topic 't'"):
            steps.send(found)


def test_a_publish_that_too_few_replicas_have_is_not_confirmed() -> None:
    steps, request = _publish(_spec(), Confirm(2))
    assert request.confirm == Confirm(2)
    with pytest.raises(NotConfirmed, match="1 of 2"):
        steps.send(([b"ok", 1, 1], 1))


def test_a_publish_pauses_between_later_attempts_and_then_gives_up() -> None:
    steps, _ = _publish(_spec(publish_attempts=publish.AT_ONCE + 2))
    found: list[Any] = []
    with pytest.raises(PublishContention, match=f"first {publish.AT_ONCE + 2} times"):  # noqa: PT012
        while True:
            last = found[-1] if found else None
            found.append(steps.send(None if isinstance(last, Sleep) else [b"moved", 5, 1]))
    # The first attempt is not in the list, and those after AT_ONCE follow a pause.
    kinds = [type(each) for each in found]
    assert kinds == [Request] * (publish.AT_ONCE - 1) + [Sleep, Request] * 2


# --- guesses of where the next message is -----------------------------------------------------


def test_a_guess_that_was_right_declares_fewer_spare_keys_and_one_that_was_wrong_more() -> None:
    guess = Guess()
    guess.missed(1000)  # the first time says nothing about the speed of others
    assert (guess.after, guess.slack, guess.known) == (1000, 0, True)
    guess.missed(1003)
    assert (guess.after, guess.slack) == (1003, 6)
    guess.missed(1004)
    assert guess.slack == 12
    guess.missed(1000)  # started again
    guess.missed(1000 + MAX_SLACK + 1)  # or moved far away
    assert (guess.after, guess.slack) == (1000 + MAX_SLACK + 1, 12)
    guess.hit(1, 2000)
    assert (guess.after, guess.slack) == (2000, 10)
    guess.hit(7, 2001)
    assert guess.slack == 14
    guess.missed(2001 + MAX_SLACK)
    assert guess.slack == MAX_SLACK
    guess.hit(MAX_SLACK, 3000)
    assert guess.slack == MAX_SLACK
    guess = Guess(slack=1)
    guess.hit(0, 5)
    assert guess.slack == 0


def test_pauses_between_attempts_grow_to_their_limit() -> None:
    assert all(0 <= pause(_spec(), 2).seconds <= 0.002 for _ in range(50))
    longest = max(pause(_spec(), 10_000).seconds for _ in range(50))
    assert MAX_PAUSE / 2 < longest <= MAX_PAUSE


def test_an_age_reaches_the_scripts_in_whole_milliseconds() -> None:
    ages = {None: 0, 1.5: 1500, 0.001: 1, 0.0004: 1}
    assert {age: TopicConfig(max_age=age).max_age_ms for age in ages} == ages


# --- consuming ----------------------------------------------------------------------------------


def _unfinished() -> UnfinishedCommits:
    found = UnfinishedCommits("t")
    found._next_check = math.inf  # it has just looked
    return found


def _consume(spec: TopicSpec, timeout: float | None = None, done: Any = ()) -> Operation[Batch]:
    return consume(spec, "c", 5, timeout, None, done, _unfinished())


def test_a_range_is_read_where_the_last_one_ended() -> None:
    spec = _spec()
    ok = [b"ok", [], 9, 5, 7, 2_500_000, b"a", b"b", b"c"]
    asked, batch = play(_consume(spec), 0.0, ok)
    request = asked[1]
    assert request.args[0] == 5 + 5  # its own keys, and no spare one
    assert request.args[-4:-2] == (5, 30_000_000)
    assert not request.resend
    assert (batch.first, batch.last) == (5, 7)
    assert [each.body for each in batch] == [b"a", b"b", b"c"]
    assert batch.lease_expires_at == 2.5
    assert batch.receipt == b"5:7:%s" % request.args[-2]
    # Four keys were skipped before the range.
    assert spec.reading["c"] == Guess(after=7, slack=8, known=True)
    asked, _ = play(_consume(spec), 0.0, [b"moved", [], 20, 18], ok)
    assert asked[1].args[-5] == 7
    assert asked[2].args[-5] == 17
    assert asked[1].args[-2] != asked[2].args[-2]  # tokens
    play(_consume(spec), 0.0, [b"ok", [], 30, 20, 22, 0, b"a", b"b", b"c"])
    assert spec.reading["c"] == Guess(after=22, slack=24, known=True)


def test_a_consumer_that_is_always_too_late_pauses_between_attempts() -> None:
    moved = [[b"moved", [], 20, 18 + at] for at in range(publish.AT_ONCE)]
    asked, batch = play(_consume(_spec()), 0.0, *moved, None, [b"empty", [], 20, -1])
    assert [type(each) for each in asked[1:]] == [Request] * publish.AT_ONCE + [Sleep, Request]
    assert not batch


def test_a_wait_lasts_until_the_next_lease_ends_or_a_message_comes() -> None:
    spec = _spec()
    empty = [b"empty", [], 1, 200_000]
    steps = _consume(spec, 60.0)
    next(steps)
    steps.send(0.0)
    asked: Any = steps.send(empty)
    while not isinstance(asked, Request):
        asked = steps.send(10.0)
    assert asked.args[:4] == (b"XREAD", b"COUNT", 1, b"BLOCK")
    block_ms: Any = asked.args[4]
    assert 200 <= block_ms <= 250
    assert asked.args[-1] == b"1-0"

    def after(woken: Any) -> Any:
        """Answer the wait; return what follows the next empty read."""
        found: Any = steps.send(woken)
        while not isinstance(found, Request):
            found = steps.send(10.0)
        found = steps.send([b"empty", [], 1, -1])
        while not isinstance(found, Request | Sleep):
            found = steps.send(10.0)
        return found

    asked = after(None)
    assert asked.args[4] == 1000
    # Woken, and still nothing new: the entry is that of a deleted topic.
    slept = after([[b"t", []]])
    assert isinstance(slept, Sleep)
    assert slept.seconds == 1.0


def test_messages_that_are_gone_are_named_or_skipped() -> None:
    missing = [b"missing", [], 9, 3, 6, 5]
    spec = _spec()
    with pytest.raises(PlaceLost, match="from index 3, are gone: they expired") as lost:
        play(_consume(spec), 0.0, missing, 1)
    assert (lost.value.consumer, lost.value.first, lost.value.last) == ("c", 3, 4)
    spec = _spec(on_trimmed="report")
    asked, batch = play(
        _consume(spec), 0.0, missing, 1, [b"ok", [], 9, 3, 6, 2_500_000, b"a", b"b"]
    )
    probe, again = asked[2:]
    assert probe.args == (2, *spec.keys.messages(4, 2))
    assert probe.resend
    # The next call begins after the gap, and names its start.
    assert (again.args[-5], again.args[-1]) == (4, 3)
    assert batch.missing == range(3, 5)
    assert spec.reading["c"] == Guess(after=6, slack=0, known=True)


def test_a_consumer_of_another_topic_or_none_is_an_error() -> None:
    with pytest.raises(NotSubscribed, match="subscribe"):
        play(_consume(_spec()), 0.0, [b"unsubscribed", [], 0])
    with pytest.raises(PlaceLost, match="started again") as lost:
        play(_consume(_spec()), 0.0, [b"ahead", [], 3, 9])
    assert (lost.value.first, lost.value.last) == (10, 3)


def test_commits_of_a_read_whose_reply_was_lost_are_sent_again_alone() -> None:
    done = Batch("t", "c", 1, 2, receipt=b"1:2:x")
    steps = _consume(_spec(), done=done)
    next(steps)
    request = steps.send(0.0)
    assert isinstance(request, Request)
    assert request.args[-1] == b"1:2:x"
    again = steps.throw(UnknownOutcome("lost"))
    assert isinstance(again, Request)
    assert b"1:2:x" in again.args
    with pytest.raises(UnknownOutcome):
        steps.throw(RedisConnectionError())


def test_batches_of_another_consumer_are_committed_by_a_call_of_their_own() -> None:
    mine, others = (Batch("t", each, 1, 2, receipt=b"1:2:%b" % each.encode()) for each in "cd")
    asked, _ = play(_consume(_spec(), done=[mine, others]), [0, 1], 0.0, [b"empty", [], 1, -1])
    assert asked[0].args[-1] == b"1:2:d"
    assert asked[0].script.name == "topic/commit"
    assert asked[2].args[-1] == b"1:2:c"
    assert others.lease_lost
    many = [Batch("t", "c", at, at, receipt=b"%d:%d:x" % (at, at)) for at in range(1, 1002)]
    asked, _ = play(_consume(_spec(), done=many), [1], 0.0, [b"empty", [2], 1, -1])
    assert asked[0].args[-1] == b"1001:1001:x"
    assert [batch.first for batch in many if batch.lease_lost] == [2]


def test_a_refused_release_is_called_one() -> None:
    batches = [Batch("t", "c", at, at + 1, receipt=b"x") for at in range(1, 15, 2)]
    with pytest.raises(LeaseLost, match=r"release refused for 3 to 4, .* and 1 more: ") as lost:
        play(settle.release(_spec(), batches), [5_000_000, 1, 2, 3, 4, 5, 6, 7])
    assert lost.value.settled == 1
    assert lost.value.messages == tuple(batches[1:])
    assert [batch.lease_expires_at for batch in batches[:2]] == [5.0, None]
    (asked,), extended = play(settle.extend(_spec(), batches[:1], None), [6_000_000, 1])
    assert (extended, asked.args[4], asked.resend) == (1, 30_000_000, True)


# --- committed rows -----------------------------------------------------------------------------


def test_rows_that_other_producers_keep_from_being_published_stay_committed() -> None:
    spec, keys = _spec(), StagingKeys.of_topic("t")
    steps = staged_rows.move(spec, keys, b"t:staged:w:1:x", attempts=2)
    with pytest.raises(PublishContention, match="2 times in a row; the committed rows wait"):
        play(steps, [b"moved", 5], None, [b"moved", 9], None)
    assert spec.publishing.after == 9
    with pytest.raises(IndexTaken, match="topic 't'"):
        play(staged_rows.move(spec, keys, b"t:staged:w:1:x"), [b"taken"])
    (asked,), left = play(staged_rows.move(spec, keys, b"t:staged:w:1:x"), [b"ok", 12, 3])
    assert (left, asked.resend, spec.publishing.after) == (True, True, 12)
    spec.publishing.slack = 9
    (asked,), _ = play(staged_rows.move(spec, keys, b"t:staged:w:1:x"), [b"ok", 12, 3])
    assert asked.args[0] == 6 + staged_rows.CHUNK_ROWS + 9
    # A delay queue's list under the same keys is not the topic's.
    with pytest.raises(StopIteration) as ended:
        next(staged_rows.move(spec, keys, b"t:staged:w:1:x:4:"))
    assert ended.value.value is False
    (asked,), left = play(
        staged_rows.move(spec, keys, b"t:staged:w:1:x:keep=1500,0:"), [b"ok", 13, 0]
    )
    assert (left, asked.args[-1]) == (False, 1500)
