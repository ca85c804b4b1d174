"""One queue over several shards, on every server, the cluster first, through both faces."""

import contextlib
import threading
import time
from collections import Counter
from typing import Any

import pytest
import redis
from redis.crc import key_slot

import ackq
from ackq import Queue
from ackq.membership.shards import shard_names
from ackq.sharded import ShardedQueue
from ackq.sharded.operations import shard_of
from tests.servers import Target
from tests.sharded.conftest import MakeSharded
from tests.waiting import wait_until


def deal(queue: Any, count: int) -> None:
    """Push messages m0, m1, ... one by one, so that the shards take turns."""
    for number in range(count):
        queue.push({"id": f"m{number}"})


def drain(*queues: Any) -> list[Any]:
    """Take and ack until nothing is left; return what was taken."""
    taken: list[Any] = []
    while found := [message for queue in queues for message in queue.pop_many(50)]:
        taken += found
        for queue in queues:
            queue.ack(*found)
    return taken


def take(queue: Queue, count: int) -> list[Any]:
    """Take ``count`` messages as they come, and return them."""
    taken: list[Any] = []

    def all_came() -> bool:
        taken.extend(queue.pop_many(count))
        return len(taken) == count

    wait_until(all_came, f"{count} messages")
    return taken


def backlog(target: Target, token: str, shards: int = 4) -> list[int]:
    return [int(target.control.llen(name)) for name in shard_names(token, shards)]


def test_messages_take_turns_over_the_shards(queue: Any, target: Target, token: str) -> None:
    deal(queue, 8)
    assert backlog(target, token) == [2, 2, 2, 2]
    for _ in range(2):
        queue.push_many([b"%d" % number for number in range(10)])
    assert sorted(backlog(target, token)) == [2, 2, 12, 12]
    ids = queue.push_many([{"id": f"n{number}"} for number in range(2500)])
    assert ids == [f"n{number}" for number in range(2500)]
    assert sorted(backlog(target, token)) == [12, 512, 1002, 1002]
    assert len(drain(queue)) == 8 + 20 + 2500


def test_a_batch_with_keys_is_grouped_by_shard_and_keeps_their_order(
    queue: Any, target: Target, token: str
) -> None:
    keys = ["customer-7", None, "customer-8", "customer-9"]
    messages = [{"id": f"m{n}", "customer": keys[n % 4]} for n in range(40)]
    before = target.calls("lpush")
    assert queue.push_many(messages, key=lambda each: each["customer"])[::39] == ["m0", "m39"]
    assert target.calls("lpush") - before == len({shard_of(key, 4) for key in keys if key}) + 1
    taken = [message.id for message in drain(queue)]
    assert len(taken) == 40
    for key in filter(None, keys):
        own = [message["id"] for message in messages if message["customer"] == key]
        assert [each for each in taken if each in own] == own
    with pytest.raises(ackq.ConfigurationError, match="text, not 7"):
        queue.push_many([{"id": "a"}, {"id": "b"}], key=lambda each: 7)
    assert queue.stats().ready == 0


def test_a_push_that_one_shard_refuses_says_what_the_others_stored(
    make_sharded: MakeSharded, target: Target, token: str
) -> None:
    queue = make_sharded(3)
    names = shard_names(token, 3)
    target.control.set(names[1], "no list")
    keys = [next(str(n) for n in range(99) if shard_of(str(n), 3) == number) for number in range(3)]
    with pytest.raises(ackq.KeyTypeError):
        queue.push_many([b"a", b"b"], key=keys[1])
    messages = [b"%d" % number for number in range(9)]
    with pytest.raises(ackq.PartlyStored) as caught:
        queue.push_many(messages, key=lambda body: keys[int(body) % 3])
    error = caught.value
    assert isinstance(error.__cause__, ackq.KeyTypeError)
    stored = error.stored_positions
    assert set(stored) & {1, 4, 7} == set()
    assert sorted([*stored, *error.not_stored_positions]) == list(range(9))
    lists = [target.control.lrange(names[shard], 0, -1) for shard in (0, 2)]
    assert {int(each) for found in lists for each in found} == set(stored)


def test_messages_of_one_key_go_to_one_shard_in_order(
    queue: Any, target: Target, token: str
) -> None:
    queue.push({"id": "a"}, key="customer-7")
    queue.push_many([{"id": "b"}, {"id": "c"}], key="customer-7")
    home = shard_of("customer-7", 4)
    assert backlog(target, token)[home] == 3
    assert [message.id for message in drain(queue)] == ["a", "b", "c"]


def test_an_idempotent_push_stays_on_its_shard(make_sharded: MakeSharded) -> None:
    one, other = make_sharded(), make_sharded()
    assert {each.push({"id": "a"}, dedup="order-1") for each in (one, other, one)} == {"a"}
    assert one.stats().ready == 1


def test_the_shards_of_a_cluster_lie_on_different_nodes(
    make_sharded: MakeSharded, target: Target, token: str
) -> None:
    if not target.cluster:
        pytest.skip("one node")
    queue = make_sharded(12)
    deal(queue, 120)
    control: Any = target.control
    names = shard_names(token, 12)
    nodes = Counter(control.get_node_from_key(name).name for name in names)
    assert sorted(nodes.values()) == [4, 4, 4]
    assert len({key_slot(name.encode()) for name in names}) == 12
    assert len(drain(queue)) == 120


def test_consumers_share_out_the_shards_and_none_is_left_unserved(
    make_sharded: MakeSharded,
) -> None:
    queues = [make_sharded(16) for _ in range(3)]
    for queue in queues:
        queue.join()
    deal(queues[0], 320)
    taken = drain(*queues)
    assert len({message.id for message in taken}) == len(taken) == 320
    wait_until(
        lambda: sorted(len(queue.assigned) for queue in queues) == [5, 5, 6],
        "the consumers to agree",
    )
    assert sorted(shard for queue in queues for shard in queue.assigned) == list(range(16))


def test_more_consumers_than_shards(make_sharded: MakeSharded) -> None:
    queues = [make_sharded(2, session_timeout=1) for _ in range(3)]
    for queue in queues:
        queue.join()
    wait_until(
        lambda: sorted(len(queue.assigned) for queue in queues) == [0, 1, 1], "them to agree"
    )
    queues[0].push_many({"id": f"m{n}"} for n in range(20))
    assert len(drain(*queues)) == 20


def test_a_busy_shard_does_not_starve_the_others(queue: Any) -> None:
    queue.push_many(({"id": f"busy{n}"} for n in range(400)), key="a")
    other = next(key for key in "bcdefgh" if shard_of(key, 4) != shard_of("a", 4))
    queue.push({"id": "rare"}, key=other)
    first = [queue.pop().id for _ in range(9)]
    assert "rare" in first


def test_settles_go_to_the_shard_of_each_message(make_sharded: MakeSharded) -> None:
    queue = make_sharded(max_receives=5)
    deal(queue, 12)
    taken = [message for _ in range(4) for message in queue.pop_many(3)]
    assert len({message.queue for message in taken}) == 4
    assert queue.extend(*taken, timeout=60) == 12
    assert queue.release(*taken) == 12
    taken = [message for _ in range(4) for message in queue.pop_many(3)]
    assert {message.receive_count for message in taken} == {1}
    assert queue.nack(*taken, delay=0) == 12
    taken = [message for _ in range(4) for message in queue.pop_many(3)]
    assert {message.receive_count for message in taken} == {2}
    assert queue.reject(*taken[:8], reason="no") == 8
    assert queue.ack(*taken[8:]) == 4
    assert len(queue.dead_letters()) == queue.stats().dead == 8
    assert len(queue.dead_letters(3)) == 3
    assert queue.redrive(3) == 3
    assert queue.redrive() == 5
    assert queue.stats().ready == 8
    assert queue.purge() == 8


def test_delayed_messages_are_run_or_canceled_on_whatever_shard_they_are(
    queue: Any, target: Target
) -> None:
    for number in range(8):
        queue.push({"id": f"m{number}"}, delay=600)
    entries = []
    with contextlib.closing(target.make_client()) as client:
        for each in queue.shards():
            with Queue(client, each.name) as shard:
                entries += [message.entry for message in shard.peek(10, "delayed")]
    assert len(entries) == 8
    assert queue.run_now(entries[0], entries[-1]) == 2
    # An entry whose message was made ready no longer names it.
    by_id = entries[3].rpartition("-")[2]
    assert queue.cancel(*entries[:3], ids=(each for each in (by_id, "none"))) == 3
    left = [entry.rpartition("-")[2] for entry in entries[4:-1]]
    assert queue.run_now(ids=iter(left)) == 3
    counts = queue.stats()
    assert (counts.delayed, counts.ready, counts.dead) == (0, 5, 3)
    assert {letter.reason for letter in queue.dead_letters()} == {"canceled"}
    assert queue.cancel(ids=["none"]) == queue.run_now(ids=["none"]) == 0


def test_the_dead_letters_of_a_shard_say_why(queue: Any) -> None:
    queue.push({"id": "a"})
    queue.nack(queue.pop(), delay=0, error=KeyError("first"))
    queue.reject(queue.pop(), reason="enough", error=ValueError("second"))
    (letter,) = queue.dead_letters()
    assert [error.type for error in letter.errors] == ["KeyError", "ValueError"]


def test_every_message_is_found_while_the_queue_is_resized(queue: Any) -> None:
    queue.push_many({"id": f"a-{number}", "all": 1} for number in range(30))
    queue.resize(3)
    queue.push_many({"id": f"a-{number}", "all": 1} for number in range(30, 60))
    assert [each.state for n in range(60) for each in queue.find_all(f"a-{n}")] == ["ready"] * 60
    assert queue.find("a-7").position is not None
    assert len(queue.search({"all": 1})) == 60
    assert len(queue.search({"all": 1}, limit=41)) == 41
    for limit in (0, -1):
        with pytest.raises(ackq.ConfigurationError, match="limit"):
            queue.search({"all": 1}, limit=limit)


def test_settles_of_which_some_are_refused_are_counted_over_all_shards(
    make_sharded: MakeSharded,
) -> None:
    queue, thief = make_sharded(), make_sharded()
    deal(queue, 8)
    first, *held, last = [queue.pop() for _ in range(8)]
    late = [first, last]
    assert first.queue != last.queue
    queue.extend(*late, timeout=0.001)
    queue.close()
    take(thief, 2)
    settler = make_sharded()
    with pytest.raises(ackq.LeaseLost) as refused:
        settler.ack(*late, *held)
    assert set(refused.value.messages) == set(late)
    assert refused.value.settled == 6


def test_a_late_holder_learns_that_its_messages_are_gone_from_all_shards(queue: Any) -> None:
    deal(queue, 6)
    late = [queue.pop() for _ in range(6)]
    assert queue.ack(late[0]) == 1
    assert queue.purge() == 5
    with pytest.raises(ackq.LeaseLost) as refused:
        queue.ack(*late)
    assert set(refused.value.messages) == set(late[1:])
    assert refused.value.settled == 0
    assert [message.lease_lost for message in late] == [False] + [True] * 5


def test_a_pop_acks_messages_of_all_shards_on_its_way(queue: Any) -> None:
    deal(queue, 8)
    held = [message for _ in range(4) for message in queue.pop_many(1)]
    assert queue.pop(ack=held) is not None
    assert queue.stats().in_flight == 1
    assert queue.stats().ready == 3


def test_a_message_of_another_queue_is_refused(queue: Any) -> None:
    stranger = ackq.Message("other", b"a", b"{}", 1, 1)
    with pytest.raises(ackq.ConfigurationError, match="was taken from queue 'other'"):
        queue.ack(stranger)


@pytest.mark.parametrize("shards", [1, 4])
def test_a_waiting_consumer_is_woken_by_a_push_to_any_of_its_shards(
    make_sharded: MakeSharded, shards: int
) -> None:
    producer, consumer = make_sharded(shards), make_sharded(shards)
    consumer.pop(timeout=0.2)  # its connections are made
    waits: list[float] = []
    for number in range(7):
        found: list[tuple[Any, float]] = []
        thread = threading.Thread(
            target=lambda found=found: found.append((consumer.pop(timeout=20), time.monotonic()))
        )
        thread.start()
        time.sleep(0.15)  # it waits by now, or else the first look finds the message
        began = time.monotonic()
        producer.push({"id": f"m{number}"})
        thread.join()
        message, ended = found[0]
        assert message.id == f"m{number}"
        consumer.ack(message)
        waits.append(ended - began)
    assert sorted(waits)[3] < 0.5  # an unnoticed push would wait for most of a second


def test_a_delayed_message_and_an_ended_lease_end_a_wait(make_sharded: MakeSharded) -> None:
    queue = make_sharded(visibility_timeout=0.3)
    queue.push({"id": "a"}, delay=0.3)
    first = queue.pop(timeout=10)
    again = queue.pop(timeout=10)
    assert (first.id, again.id, again.receive_count) == ("a", "a", 2)


@pytest.mark.parametrize("shards", [1, 4])
def test_a_wait_for_a_time_sleeps_in_the_server(
    make_sharded: MakeSharded, target: Target, shards: int
) -> None:
    queue = make_sharded(shards)
    queue.pop()  # joins
    queue.push({"id": "a"}, delay=0.5)
    before = target.calls("blmove")
    assert queue.pop(timeout=30).id == "a"
    # One for each shard, and some more where Redis or this machine is slow to wake it.
    assert target.calls("blmove") - before < 15 * shards


def test_a_paused_queue_gives_nothing_and_keeps_its_order(
    queue: Any, target: Target, token: str
) -> None:
    queue.push_many([{"id": f"m{n}"} for n in range(4)], key="k")
    queue.pause()
    assert queue.pop(timeout=0.7) is None
    assert not any(target.control.exists(f"{name}HANDOFF") for name in shard_names(token, 4))
    assert queue.stats().paused
    queue.resume()
    assert [message.id for message in drain(queue)] == [f"m{n}" for n in range(4)]


def test_stats_show_the_first_event_and_whether_any_shard_is_paused(
    make_sharded: MakeSharded, target: Target, token: str
) -> None:
    queue = make_sharded(3)
    queue.push_many([{"id": "a"}], delay=1000)
    queue.push_many([{"id": "b"}], delay=100)
    assert queue.stats().next_event_in <= 100
    assert not queue.stats().paused
    target.control.set(f"{shard_names(token, 3)[1]}PAUSED", "1")
    assert queue.stats().paused


def test_a_consumer_that_leaves_is_replaced_soon(make_sharded: MakeSharded) -> None:
    one, other = make_sharded(session_timeout=600), make_sharded(session_timeout=600)
    one.join()
    other.join()
    one.close()
    other.push_many({"id": f"m{n}"} for n in range(8))
    take(other, 8)


@pytest.mark.parametrize("name", ["", "{jobs}", "jobs}", "a{b}c", "jobs*", None])
def test_a_name_that_cannot_be_is_refused(plain_client: redis.Redis, name: Any) -> None:
    with pytest.raises(ackq.QueueNameError):
        ShardedQueue(plain_client, name, 2)


@pytest.mark.parametrize("shards", [0, 1025, 1.5, True])
def test_a_number_of_shards_that_cannot_be_is_refused(
    plain_client: redis.Redis, shards: Any
) -> None:
    with pytest.raises(ackq.ConfigurationError):
        ShardedQueue(plain_client, "jobs", shards)


def test_a_bad_message_of_a_batch_stops_all_of_it(make_sharded: MakeSharded) -> None:
    queue = make_sharded(max_body_bytes=100)
    with pytest.raises(ackq.MessageTooLarge):
        queue.push_many([{"id": f"m{n}", "x": "y" * (n * 30)} for n in range(8)])
    assert queue.stats().ready == 0


def test_no_thread_waits_on_after_a_close(make_sharded: MakeSharded) -> None:
    before = set(threading.enumerate())
    queue = make_sharded(2)
    assert queue.pop(timeout=0.05) is None
    queue.close()
    later = set(threading.enumerate()) - before
    assert not [thread for thread in later if thread.name.startswith("ackq-")]
