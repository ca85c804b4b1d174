"""What a delay queue's operations check and note between two replies, with no server."""

from __future__ import annotations

import pytest
import redis

from ackq.config import QueueConfig
from ackq.core.claim_groups import HeldClaim
from ackq.delay import admin, claims, push, settle
from ackq.delay.messages import MAX_DELAY, DelayedMessage, DelayEntry, DelaySpec, due
from ackq.errors import ConfigurationError
from ackq.membership.operations import GroupSpec
from tests.outside import FIXED
from tests.steps import play

DELAY = DelaySpec.plain("d", QueueConfig(), 1.0, FIXED)


def _partitioned(partitions: int) -> DelaySpec:
    return DelaySpec.partitioned(
        "d", QueueConfig(), GroupSpec.of("d", partitions, 10.0), 1.0, FIXED
    )


def test_entries_of_dead_letters_are_those_of_one_partition() -> None:
    for spec, partition in ((DELAY, None), (_partitioned(1), None), (_partitioned(2), 1)):
        request = next(admin.dead_letters(spec, 5, "7-0", partition))
        assert request.args[0] == b"XRANGE"  # type: ignore[union-attr]
    with pytest.raises(ConfigurationError, match="pass partition"):
        next(admin.dead_letters(_partitioned(2), 5, "7-0", None))
    with pytest.raises(ConfigurationError, match="partition"):
        next(admin.dead_letters(_partitioned(2), 5, "7-0", 2))
    for wrong in (-1, 2**53 + 1, True):
        with pytest.raises(ConfigurationError, match="dead_letters"):
            next(admin.dead_letters(DELAY, wrong, None, None))


def test_only_an_extension_changes_when_a_lease_ends() -> None:
    message = DelayedMessage("d", "a", b"{}", receipt=1)
    before = message.lease_expires_at
    assert play(settle.nack(DELAY, [message], 5.0), [1, []])[1] == 1
    assert message.lease_expires_at == before
    message = DelayedMessage("d", "a", b"{}", receipt=1)
    assert play(settle.extend(DELAY, [message], 5.0), [7_500_000, 1])[1] == 1
    assert message.lease_expires_at == 7.5


def test_a_time_that_is_out_of_range_is_named_as_it_was_given() -> None:
    for given in ({"delay": -1}, {"delay_ms": -1}, {"at": -1}, {"at_ms": -1}):
        (name,) = given
        arguments = dict.fromkeys(("delay", "delay_ms", "at", "at_ms")) | given
        with pytest.raises(ConfigurationError, match=rf"\b{name}\b"):
            due(**arguments)


def test_a_dead_letter_with_fields_missing_has_zeros() -> None:
    (letter,) = play(admin.dead_letters(DELAY, 1, None, None), [[b"1-0", [b"key", b"a"]]])[1]
    assert (letter.id, letter.receive_count, letter.died_at) == ("a", 0, 0.0)


def test_the_longest_delay_and_the_largest_counts() -> None:
    longest = MAX_DELAY / 1_000_000
    assert settle._delay_us(longest) == MAX_DELAY
    with pytest.raises(ConfigurationError):
        settle._delay_us(longest + 1)
    numbers = {
        b"": 0,
        b"x": 0,
        b"-1": 0,
        b"0": 0,
        b"7": 7,
        b"%d" % (2**63 - 1): 2**63 - 1,
        b"%d" % 2**63: 0,
    }
    assert {text: admin._whole(text) for text in numbers} == numbers


@pytest.mark.parametrize("ends", [(0, 9_000_000), (9_000_000, 0), (0, 0), (9_000_000, 7_000_000)])
def test_a_claim_that_one_partition_is_returning_has_no_end(ends: tuple[int, int]) -> None:
    spec = _partitioned(2)
    names = [keys.claim + b"g:4" for keys in spec.partitions]
    replies: list[object] = [[2, 0]]
    for name, end in zip(names, ends, strict=True):
        replies += [[name, b"%d" % end], 3]
    asked, found = play(claims.held(spec), *replies)
    assert [each.args[1] for each in asked if each.args[0] == b"LLEN"] == names
    assert found == [HeldClaim("g", 4, 6, 5.0 if all(ends) else None)]


def test_a_push_that_fails_between_two_calls_notes_what_was_sent() -> None:
    entries = [DelayEntry(f"k{number}", b"{}") for number in range(1200)]
    steps = push.push_many(DELAY, entries)
    next(steps)
    steps.send([])
    with pytest.raises(redis.ResponseError) as raised:
        steps.throw(redis.ResponseError("OOM"))
    assert raised.value.__notes__ == ["ackq: the first 500 of 1200 messages were sent"]
