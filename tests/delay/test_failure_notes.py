"""Why messages of a delay queue failed: noted by nack, moved to their dead letters."""

from collections.abc import Callable

import pytest

from tests.delay.partition import Partition
from tests.queue.scripts.space import FUTURE, PAST

A, B = b'{"type":"A"}', b'{"type":"B"}'


def test_an_error_is_noted_and_stays_with_the_message(partition: Partition) -> None:
    partition.lease("a")
    assert partition.nack(FUTURE, "a", errors=(1, A)) == [1]
    assert partition.noted("a") == [b"1:" + A]
    receipt, _ = partition.take()
    partition.nack(receipt, "a")
    receipt, _ = partition.take()
    partition.nack(receipt, "a", errors=(1, B))
    assert partition.noted("a") == [b"1:" + A, b"3:" + B]


def test_each_message_gets_its_own_error_or_none(partition: Partition) -> None:
    for key in "abcd":
        partition.lease(key)
    partition.nack(FUTURE, *"abcd", errors=(1, A, 2, "", 3, B))
    noted = [partition.noted(key) for key in "abcd"]
    assert noted == [[b"1:" + A], [], [b"1:" + B], []]


def test_only_the_last_five_are_kept(partition: Partition) -> None:
    partition.lease("a", count=9)
    partition.note("a", b"body", *(b"%d:1:%s" % (count, A) for count in range(1, 6)))
    partition.nack(FUTURE, "a", errors=(1, B))
    assert partition.noted("a") == [*(b"%d:%s" % (n, A) for n in range(2, 6)), b"9:" + B]


@pytest.mark.parametrize("noted", [b"other", b"body"])
def test_a_note_is_never_attached_to_another_message_with_the_same_key(
    partition: Partition, noted: bytes
) -> None:
    """A release that does not know of notes leaves them behind at a delete."""
    partition.lease("a")  # a first delivery, so the same body was pushed again
    partition.note("a", noted, b"1:1:" + A)
    partition.nack(FUTURE, "a", errors=(1, B))
    assert partition.noted("a") == [b"1:" + B]


@pytest.mark.parametrize("end", ["nack", "reject", "take"])
@pytest.mark.parametrize("noted", [b"body", b"other"])
def test_a_dead_letter_gets_the_errors_of_its_message(
    partition: Partition, end: str, noted: bytes
) -> None:
    partition.lease("a", deadline=PAST if end == "take" else FUTURE, count=2)
    partition.note("a", noted, b"1:1:" + A)
    if end == "nack":
        assert partition.nack(FUTURE, "a", max_receives=2, errors=(1, B)) == [1, [1]]
    elif end == "reject":
        assert partition.reject(FUTURE, "a", errors=(1, B)) == [1]
    else:
        partition.take(max_receives=2)
    last = b"2:" if end == "take" else b"2:" + B  # no error is known: its lease ended
    assert partition.dead_lettered == [[b"1:" + A, last] if noted == b"body" else [last]]
    assert not partition.client.exists(partition.key("errors"))


GOES: dict[str, Callable[[Partition], object]] = {
    "delete": lambda partition: partition.delete(FUTURE, "a"),
    "release": lambda partition: partition.nack(FUTURE, "a", way="release"),
    "cancel": lambda partition: partition.call("delay/cancel", 1, 1, "a"),
    "purge": lambda partition: partition.call("delay/purge", 0),
}


@pytest.mark.parametrize("means", GOES)
def test_a_note_goes_with_its_message(partition: Partition, means: str) -> None:
    partition.lease("a", count=1)
    partition.note("a", b"body", b"1:1:" + A)
    GOES[means](partition)
    assert not partition.client.exists(partition.key("errors"))


@pytest.mark.parametrize("means", ["push", "redrive", "staging"])
def test_a_new_message_inherits_no_note(partition: Partition, means: str) -> None:
    if means == "redrive":
        partition.lease("a")
        partition.reject(FUTURE, "a")
    partition.note("a", b"body", b"1:1:" + A)
    if means == "push":
        partition.call("delay/push", 1, "delay", 0, "a", "body")
    elif means == "redrive":
        partition.call("delay/redrive", 1, "")
    else:
        partition.stage(b"1:1:1:abody")
    assert not partition.client.exists(partition.key("errors"))


def test_an_empty_queue_sweeps_stale_notes(partition: Partition) -> None:
    partition.lease("kept", count=2)
    partition.note("kept", b"body", b"1:1:" + A)
    for number in range(40):
        partition.note(f"stale {number}", b"body", b"1:1:" + A)
    partition.take()
    left = partition.client.hlen(partition.key("errors"))
    assert 25 <= left < 41, "one call looks at 16"
    for _ in range(40):
        partition.take()
    assert partition.client.hkeys(partition.key("errors")) == [b"kept"]
