"""What is counted while a client watches, and what follows from the counts."""

from typing import Any

import pytest

from ackq.queue.inspection import read_counters
from ackq.queue.messages import QueueCounters
from tests.queue.scripts.space import FUTURE, NOW, PAST, SECOND, Space, body, counted


def watch(space: Space) -> QueueCounters:
    now, live, held, *pairs = space.call("watch", 60_000)
    counted = dict(zip(pairs[::2], map(int, pairs[1::2]), strict=True))
    return read_counters(now, live, held, counted)


def shown(space: Space) -> dict[str, int]:
    """Return the counts that are not 0, but the number of pushes and takes always."""
    return counted(watch(space))


def busy(space: Space) -> Space:
    """Put something into every state, and begin to count."""
    space.lease("leased before")
    space.delay("delayed before")
    space.push(body("before"))
    space.hold(body("claimed before"))
    space.hold(body("staged before"), until=FUTURE, suffix="STAGED:CLAIM:1:t")
    space.die("dead before", b"body")
    watch(space)
    return space


@pytest.mark.parametrize("wanted", [1, 2])
def test_a_take_and_an_ack(space: Space, wanted: int) -> None:
    watched = busy(space)
    watched.push(body("a"))
    popped = watched.pop(wanted, jitter=1)
    assert shown(watched) == {"pushed": 1, "taken": wanted}
    watched.ack((popped.deadline, *popped.keys))
    assert shown(watched) == {"pushed": 1, "taken": wanted, "acked": wanted}
    watched.ack((popped.deadline, *popped.keys))
    assert shown(watched)["acked"] == wanted


def test_a_queue_with_nothing_else_counts_too(space: Space) -> None:
    watch(space)
    for id in "abc":
        space.push(body(id))
    first = space.pop(jitter=1)
    second = space.pop(jitter=2, settled=[(first.deadline, "a")])
    space.pop(jitter=3, settled=[(second.deadline, "b")])
    assert shown(space) == {"pushed": 3, "taken": 3, "acked": 2}


def test_an_ack_by_bare_id(space: Space) -> None:
    watched = busy(space)
    watched.call("ack_id", "leased before")
    assert shown(watched) == {"pushed": 0, "taken": 0, "acked": 1}


def test_a_nack_and_a_release(space: Space) -> None:
    watched = busy(space)
    watched.push(body("a"))
    for way in ("nack", "release"):
        popped = watched.frozen().pop(jitter=1)
        watched.frozen().nack((popped.deadline, 0, *popped.keys), way=way)
    assert shown(watched) == {"pushed": 1, "taken": 2, "nacked": 1, "released": 1}


def test_a_nack_that_kills_and_a_reject(space: Space) -> None:
    watched = busy(space)
    watched.nack((FUTURE, 0, "leased before"), max_receives=1)
    popped = watched.pop(jitter=1)
    watched.reject((popped.deadline, *popped.keys))
    assert shown(watched) == {
        "pushed": 0,
        "taken": 1,
        "nacked": 1,
        "dead": {"max receives": 1, "rejected": 1},
    }


@pytest.mark.parametrize("ended", [False, True])
def test_a_death_without_a_body_has_a_reason_of_its_own(space: Space, ended: bool) -> None:
    watched = busy(space)
    for key in ("bodiless", "bodiless too", "dies"):
        watched.lease(key, deadline=PAST if ended else FUTURE, count=3)
    space.client.hdel(space.key("CONTEXT"), "bodiless", "bodiless too")
    if ended:
        watched.pop(5, jitter=1, max_receives=3)
    else:
        watched.nack((FUTURE, 0, "bodiless", "dies", "bodiless too"), max_receives=3)
    dead: Any = shown(watched)["dead"]
    assert dead == {"body missing": 2, "max receives": 1}


def test_a_redelivery_and_a_death_after_a_lease_ended(space: Space) -> None:
    watched = busy(space)
    watched.lease("again", deadline=PAST)
    watched.lease("dies", deadline=PAST, count=3)
    watched.pop(2, jitter=1, max_receives=3)
    # The two leases were not given by pop, so they count as taken where they end.
    assert shown(watched) == {
        "pushed": 2,
        "taken": 4,
        "returned": 1,
        "dead": {"max receives": 1},
    }


def test_a_message_that_is_too_large_was_never_taken(space: Space) -> None:
    watch(space)
    space.push(b"x" * 100, body("a"))
    space.pop(2, jitter=1, max_body=50)
    assert shown(space) == {"pushed": 2, "taken": 1, "dead": {"too large": 1}}


def test_redriven_and_dropped_dead_letters(space: Space) -> None:
    watched = busy(space)
    first, second = watched.die("a", b"a"), watched.die("b", b"b")
    watched.call("redrive", 1, "", 0, first)
    assert watched.call("drop", second, second) == 1
    assert shown(watched) == {"pushed": 0, "taken": 0, "redriven": 1, "dead_dropped": 1}


def test_canceled_messages_were_never_taken_and_run_now_counts_nothing(space: Space) -> None:
    watched = busy(space)
    for id in "abc":
        watched.delay(id)
    assert watched.call("cancel", 0, "", "a", "", "b", "", "gone") == [2, 3]
    assert watched.call("run_now", "", "c") == 1
    assert shown(watched) == {"pushed": 3, "taken": 0, "dead": {"canceled": 2}}


def test_a_delivery_that_is_canceled_has_ended(space: Space) -> None:
    watched = busy(space)
    assert watched.call("cancel", 1, "", "leased before") == [1, 1]
    assert shown(watched) == {"pushed": 0, "taken": 0, "dead": {"canceled": 1}}


def test_rows_that_a_pipeline_rejected_are_dead_but_were_claimed_and_acked(space: Space) -> None:
    watched = busy(space)
    rows = ("1", "a", b"{}", "check: age", "2", "b", b"{}", "does not parse")
    for _ in range(2):  # a replayed batch
        watched.call("pipeline/reject", "7", 60_000)
        watched.call("pipeline/reject", "7", 60_000, *rows, "3", "c", b"{}", "check: age")
    counters = watch(watched)
    assert counters.dead == {"check: age": 2, "does not parse": 1}
    assert (counters.pushed, counters.taken, counters.acked, counters.dead_rows) == (0, 0, 0, 3)


def test_reasons_of_rows_beyond_a_hundred_fields_are_counted_together(space: Space) -> None:
    watch(space)
    for batch in range(2):
        rows = [(n, "", b"", f"reason {n}") for n in range(120)]
        space.call("pipeline/reject", batch, 60_000)
        space.call("pipeline/reject", batch, 60_000, *(each for row in rows for each in row))
    counters = watch(space)
    assert len(counters.dead) == 98
    assert counters.dead["other"] == 2 * 23
    assert sum(counters.dead.values()) == counters.dead_rows == 240


def test_a_purge_resets_nothing(space: Space) -> None:
    watched = busy(space)
    watched.push(body("a"))
    watched.pop(jitter=1)
    watched.call("purge", 1)
    assert shown(watched) == {"pushed": 1, "taken": 1, "dropped": 4, "dead_dropped": 1}


def test_a_drain_ends_deliveries_and_loses_no_message(space: Space) -> None:
    watched = busy(space)
    watched.pop(jitter=1)
    watched.call("drain", 10, "right")
    assert shown(watched) == {"pushed": 0, "taken": 1}


def test_claims(space: Space) -> None:
    watched = busy(space)
    watched.know(epoch=3, last=1)
    watched.push(body("a"), body("b"))
    watched.lease("expired", deadline=PAST)
    batch = "CLAIM:<group>:<batch>"
    watched.client.unlink(watched.key(batch))
    watched.client.zrem(watched.key("HELD"), watched.key(batch))
    watched.client.hdel(watched.key("HELDROWS"), watched.key(batch))
    before = watch(watched)
    watched.call("claims/claim", 3, 2, 3, 0, 60 * SECOND, "right")
    claimed = watch(watched)
    assert claimed.taken - before.taken == 3
    assert claimed.returned == 1
    watched.frozen(FUTURE).call("held/give_back", "front", "right")
    assert watch(watched).taken == claimed.taken
    watched.call("claims/claim", 3, 3, 3, 0, 60 * SECOND, "right")
    watched.call("claims/ack", 3, 3, 0)
    done = watch(watched)
    assert (done.taken - claimed.taken, done.acked, done.pushed) == (3, 3, before.pushed)


def test_a_dropped_claim_ends_its_deliveries(space: Space) -> None:
    watched = busy(space)
    watched.call("held/drop")
    assert shown(watched) == {"pushed": 0, "taken": 0, "dropped": 1}


def test_an_audit_counts_what_it_buries(space: Space) -> None:
    watched = busy(space)
    watched.client.hdel(watched.key("CONTEXT"), "leased before", "delayed before")
    for walk in ("backup", "delayed"):
        watched.call("audit_scan", walk, 0, 1)
    assert shown(watched) == {"pushed": 0, "taken": 0, "dead": {"body missing": 2}}


def test_a_record_of_the_former_release_is_read(space: Space) -> None:
    fields = {"since": NOW, "taken": 3, "acked": 2, "timeout:30": 3}
    space.client.hset(space.key("COUNTERS"), mapping=fields)
    counters = watch(space)
    assert (counters.taken, counters.pushed, counters.timeouts) == (3, None, {30: 3})


def test_other_clients_push_and_remove(space: Space) -> None:
    watched = busy(space)
    watched.push(body("a"), body("b"), body("c"))
    watched.client.rpop(watched.name)
    assert shown(watched) == {"pushed": 2, "taken": 0}


def test_counts_of_another_type_stop_no_pop_half_way(space: Space) -> None:
    space.client.set(space.key("COUNTERS"), "a string")
    space.push(b"x" * 100, body("a"))
    assert space.pop(2, jitter=1, max_body=50).keys == [b"a"]
    assert len(space.dead) == 1
