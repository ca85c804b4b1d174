"""What is counted while a client watches a delay queue, and what follows from the counts."""

import pytest

from tests.delay.partition import Partition
from tests.queue.scripts.space import FUTURE, PAST


@pytest.fixture
def watched(partition: Partition) -> Partition:
    """A queue with something in every state, whose counts began just now."""
    partition.lease("leased before")
    partition.lease("ended before", deadline=PAST)
    partition.store("delayed before", ready=FUTURE / 1e6)
    partition.client.zadd(partition.key("leases"), {"left behind": PAST})
    partition.watch()
    return partition


def test_a_take_and_a_delete(watched: Partition) -> None:
    watched.call("delay/push", 1, "delay", 0, "a", "body", 1, "delay", 0, "b", "body")
    receipt, keys = watched.take()
    assert sorted(keys) == [b"a", b"b", b"ended before"]
    assert watched.shown() == {"pushed": 2, "taken": 3, "returned": 1}
    for _ in range(2):  # resent
        watched.delete(receipt, "a", "b")
    assert watched.shown() == {"pushed": 2, "taken": 3, "returned": 1, "acked": 2}


def test_a_nack_and_a_release(watched: Partition) -> None:
    receipt, keys = watched.take()
    watched.nack(receipt, *keys)
    receipt, keys = watched.take()
    watched.nack(receipt, *keys, way="release")
    assert watched.shown() == {"pushed": 0, "taken": 2, "returned": 1, "nacked": 1, "released": 1}


def test_a_nack_that_kills_and_a_reject(watched: Partition) -> None:
    watched.lease("gone")
    watched.client.hdel(watched.key("h"), "gone")
    assert watched.nack(FUTURE, "leased before", "gone", max_receives=1) == [2, [1, 2]]
    watched.reject(*watched.take()[:1], "ended before")
    assert watched.shown() == {
        "pushed": 1,
        "taken": 2,
        "returned": 1,
        "nacked": 2,
        "dead": {"max receives": 1, "body missing": 1, "rejected": 1},
    }


def test_a_death_after_a_lease_ended_ends_the_delivery(watched: Partition) -> None:
    watched.store("lost")
    watched.client.hdel(watched.key("h"), "lost")
    watched.take(max_receives=1)
    assert watched.shown() == {
        "pushed": 1,
        "taken": 0,
        "dead": {"max receives": 1, "body missing": 1},
    }


def test_a_purge_resets_nothing(watched: Partition) -> None:
    watched.reject(FUTURE, "leased before")
    watched.call("delay/purge", 1)
    assert watched.shown() == {
        "pushed": 0,
        "taken": 0,
        "dead": {"rejected": 1},
        "dropped": 2,
        "dead_dropped": 1,
    }


def test_canceled_messages_are_dropped(watched: Partition) -> None:
    watched.call("delay/cancel", 1, 1, "leased before", 1, "delayed before", 1, "unknown")
    assert watched.shown() == {"pushed": 0, "taken": 0, "dropped": 2}


def test_dropped_dead_letters(watched: Partition) -> None:
    watched.reject(FUTURE, "leased before")
    [(entry, _)] = watched.client.xrange(watched.key("dead"))
    assert [watched.call("delay/drop", entry, "1-1") for _ in range(2)] == [1, 0]
    assert watched.shown() == {"pushed": 0, "taken": 0, "dead": {"rejected": 1}, "dead_dropped": 1}


def test_a_redrive_pushes_nothing(watched: Partition) -> None:
    watched.reject(FUTURE, "leased before")
    watched.client.zadd(watched.key("leases"), {"leased before": PAST})
    before = watched.watch().taken
    watched.call("delay/redrive", 10, "")
    assert watched.watch().taken == before
    assert watched.watch().redriven == 1
    assert watched.watch().pushed == 0


@pytest.mark.parametrize("means", ["take", "push", "staging"])
def test_a_lease_that_another_client_left_behind_ends(watched: Partition, means: str) -> None:
    if means == "take":
        watched.client.zrem(watched.key("z"), "ended before")  # none is ready: it is swept
        watched.take()
        assert watched.shown() == {"pushed": -1, "taken": 0}
    elif means == "push":
        watched.call("delay/push", 1, "delay", 0, "left behind", "body")
        assert watched.shown() == {"pushed": 1, "taken": 0}
    else:
        watched.stage(b"1:1:11:left behindbody")
        assert watched.shown() == {"pushed": 1, "taken": 0}


def test_a_row_whose_key_is_stored_is_dead_at_once(watched: Partition) -> None:
    watched.stage(b"1:1:1:abody", b"1:1:13:leased beforebody", b"1:1:13:leased beforeother")
    assert watched.shown() == {"pushed": 2, "taken": 0, "dead": {"duplicate key": 1}}


def test_counting_ends_by_itself_and_a_shorter_window_does_not_shorten(
    partition: Partition,
) -> None:
    partition.watch(60_000)
    partition.watch(1_000)
    assert partition.client.pttl(partition.key("counters")) > 50_000
    partition.client.unlink(partition.key("counters"))
    partition.lease("a")
    partition.delete(FUTURE, "a")
    assert not partition.client.exists(partition.key("counters"))


def test_counts_of_another_type_stop_no_script_half_way(partition: Partition) -> None:
    partition.client.set(partition.key("counters"), "a string")
    partition.lease("a")
    assert partition.reject(FUTURE, "a") == [1]
    assert partition.client.xlen(partition.key("dead")) == 1
