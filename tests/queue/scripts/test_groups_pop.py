"""groups/pop and what frees the slots of groups: order, limits, turns, and nothing that grows."""

import json
from collections.abc import Callable

import pytest
from redis.exceptions import ResponseError

from tests.queue.scripts.grouped import RECORD, busy, message, parked, pop, record, turns
from tests.queue.scripts.headers import parse, read
from tests.queue.scripts.space import MIB, NOW, PAST, SECOND, Popped, Space


def ids(popped: Popped) -> list[str]:
    return [key.decode() for key in popped.keys]


def push(space: Space, *pairs: tuple[str, str | int | None]) -> None:
    space.push(*(message(id, group) for id, group in pairs))


def without_groups(space: Space) -> Space:
    """Return the same keys, as a client of the previous release knows them."""
    return Space(space.client, space.name, space.directory)


def wait(space: Space) -> None:
    """Show that a consumer has waited lately."""
    space.client.set(space.key("WAITERS:LOOKS"), f"{NOW}:1.000", px=10_000)


# The gate.


def test_a_busy_group_is_moved_aside_and_the_others_pass(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a"), ("none", None))
    assert ids(pop(space, 1)) == ["a1"]
    assert ids(pop(space, 10)) == ["b1", "none"]
    assert parked(space) == {"a": ["a2", "a3"]}
    assert busy(space) == {"a": 1, "b": 1}
    assert turns(space) == []
    assert pop(space, 10).status == "empty"


def test_the_next_message_follows_an_ack_in_order(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("a2", "a"), ("a3", "a"))
    first = pop(space, 1)
    pop(space, 1)
    second = pop(space, 1, settled=[(first.deadline, "a1")])
    assert ids(second) == ["a2"]
    assert space.call("ack", second.deadline, 1, "a2") == [1]
    assert (space.ready, turns(space)) == ([], ["a"])  # nobody waits for it
    assert ids(pop(space, 1)) == ["a3"]
    assert parked(space) == {}


def test_a_group_has_as_many_in_flight_as_the_record_says(space: Space) -> None:
    record(space, 2)
    push(space, *((f"a{n}", "a") for n in range(5)))
    taken = pop(space, 10)
    assert ids(taken) == ["a0", "a1"]
    assert busy(space) == {"a": 2}
    assert ids(pop(space, 10, settled=[(taken.deadline, "a1")])) == ["a2"]
    assert space.client.exists(space.key("GROUPS:RUNS")) == 0


def test_one_call_takes_several_of_a_group_in_order(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b"), ("a3", "a"))
    taken = pop(space, 4)
    assert ids(taken) == ["a1", "b1", "a2", "b2"]
    assert pop(space, 4).status == "empty"
    assert space.call("ack", taken.deadline, 2, "a1", "b1") == [2]
    assert pop(space, 4).status == "empty"  # the consumer still has a2
    assert ids(pop(space, 4, settled=[(taken.deadline, "a2", "b2")])) == ["a3"]
    assert space.client.exists(space.key("GROUPS:RUNS")) == 0


def test_groups_take_turns(space: Space) -> None:
    record(space)
    push(space, *((f"{group}{n}", group) for n in range(3) for group in "abc"))
    taken = pop(space, 3)
    pop(space, 1)
    for key in ("c0", "a0", "b0"):
        space.call("ack", taken.deadline, 1, key)
    assert turns(space) == ["c", "a", "b"]
    first = pop(space, 1)
    assert ids(first) == ["c1"]
    # The group that was freed last comes last.
    assert ids(pop(space, 2, settled=[(first.deadline, "c1")])) == ["a1", "b1"]
    assert turns(space) == ["c"]


def test_a_flood_of_one_group_does_not_hide_another(space: Space) -> None:
    record(space)
    push(space, *((f"a{n}", "a") for n in range(450)), ("b1", "b"))
    held = pop(space, 1)
    calls = 0
    while ids(held) != ["b1"] and calls < 9:
        held = pop(space, 1, settled=[(held.deadline, *held.keys)])
        calls += 1
    assert calls <= 6  # as many as it takes to move the flood aside


def test_messages_without_a_group_take_turns_with_the_groups(space: Space) -> None:
    record(space)
    push(space, *((f"a{n}", "a") for n in range(120)), ("x", None), ("y", None))
    held = pop(space, 1)
    seen = []
    for _ in range(6):
        held = pop(space, 1, settled=[(held.deadline, *held.keys)])
        seen += ids(held)
    assert "x" in seen
    assert "y" in seen


def test_one_call_moves_two_hundred_messages_aside(space: Space) -> None:
    record(space)
    push(space, *((f"a{n}", "a") for n in range(500)))
    pop(space, 1)
    assert len(parked(space)["a"]) == 99  # a call that delivered enough moves a hundred
    assert pop(space, 1).status == "again"
    assert len(parked(space)["a"]) == 299
    assert pop(space, 1).status == "again"
    assert len(parked(space)["a"]) == 499
    assert pop(space, 1).status == "empty"


def test_one_call_moves_half_a_mebibyte_aside(space: Space) -> None:
    record(space)
    space.push(message("a0", "a"), *(message(f"a{n}", "a", MIB * 3 // 10) for n in range(1, 9)))
    pop(space, 1)
    for number in (2, 4, 6, 8):
        assert len(parked(space)["a"]) == number
        assert pop(space, 1).status == ("again" if number < 8 else "empty")


def test_one_call_serves_two_hundred_turns(space: Space) -> None:
    record(space)
    groups = [f"g{n:03}" for n in range(250)]
    space.client.zadd(
        space.key("GROUPS:PARKED"),
        {f"004{group}{'1' * 16}".encode() + message(group, group): 0 for group in groups},
    )
    space.client.zadd(space.key("GROUPS:TURNS"), {group: n for n, group in enumerate(groups)})
    push(space, ("x", "x"))
    assert ids(pop(space, 1000)) == groups[:200]
    assert space.ready == []  # the list is looked at
    assert ids(pop(space, 1000)) == [*groups[200:], "x"]


def test_a_run_reads_no_more_at_a_time_than_it_has(space: Space) -> None:
    record(space)
    space.push(*(message(f"a{n}", "a", 0 if n < 4 else MIB // 3) for n in range(24)))
    held = pop(space, 1)
    while len(parked(space)["a"]) < 23:
        pop(space, 1)
    with space.client.monitor() as monitor:
        taken = pop(space, 100, settled=[(held.deadline, "a0")])
        assert ids(taken) == ["a1", "a2", "a3", "a4", "a5"]
        space.client.echo("end")
        commands: list[list[str]] = []
        while not commands or commands[-1][0] != "ECHO":
            commands.append(monitor.next_command()["command"].split())
    asked = [int(each[-1]) for each in commands if each[0] == "ZRANGEBYLEX"]
    assert asked == [1, 1, 2, 1]


# What a group is.


def test_a_long_name_is_stored_as_its_hash(space: Space) -> None:
    record(space)
    space.push(message("m", "g" * 513))
    pop(space, 1)
    [tag] = busy(space)
    assert tag.startswith("\1")
    assert len(tag) == 41


def test_the_longest_name_does_not_block_its_queue(space: Space) -> None:
    record(space)
    space.push(*(b'{"n":%d,"customer":"%b"}' % (n, b"g" * 65_500) for n in range(2)))
    first = pop(space, 5)
    assert len(first.messages) == 1
    assert pop(space, 5).status == "empty"
    assert len(pop(space, 5, settled=[(first.deadline, *first.keys)]).messages) == 1


def test_a_field_of_any_characters_is_no_pattern(space: Space) -> None:
    record(space, field="a.b")
    space.push(b'{"id":"m","a.b":"x"}', b'{"id":"n","aXb":"y"}')
    pop(space, 2)
    assert busy(space) == {"x": 1}


def test_one_name_is_never_taken_for_the_beginning_of_another(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("x1", "a0"), ("ab1", "ab"), ("x2", "a0"), ("ab2", "ab"), ("a2", "a"))
    taken = pop(space, 3)
    assert ids(taken) == ["a1", "x1", "ab1"]
    pop(space, 1)
    assert ids(pop(space, 5, settled=[(taken.deadline, "a1")])) == ["a2"]


# Messages that come back.


def test_a_nacked_message_keeps_its_group(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("a2", "a"))
    first = pop(space, 1)
    space.nack((first.deadline, 60 * SECOND, "a1"))
    assert pop(space, 5).status == "empty"
    assert parked(space) == {"a": ["a2"]}
    space.client.zadd(space.key("DELAYED"), {"a1": PAST})
    again = pop(space, 1)
    assert (ids(again), again.counts) == (["a1"], [2])
    assert busy(space) == {"a": 1}


@pytest.mark.parametrize("wanted", [1, 5])
def test_a_run_whose_leases_end_comes_back_in_order(space: Space, wanted: int) -> None:
    record(space)
    push(space, ("z", "a"), ("y", "a"), ("x", "a"), ("w", "a"))
    assert ids(pop(space, 3)) == ["z", "y", "x"]
    space.client.zadd(space.key("BACKUP"), {"x": PAST, "y": PAST, "z": PAST})
    seen = []
    while taken := pop(space, wanted):
        if taken.status == "again":
            continue
        if not taken.messages:
            break
        seen += ids(taken)
        assert space.call("ack", taken.deadline, len(taken.keys), *taken.keys)
    assert seen == ["z", "y", "x", "w"]


def test_a_later_message_of_a_run_waits_for_an_earlier_one(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("a2", "a"))
    taken = pop(space, 2)
    space.nack((taken.deadline, 60 * SECOND, "a1"))
    space.nack((taken.deadline, 0, "a2"), way="release")
    assert pop(space, 5).status == "again"
    assert pop(space, 5).status == "empty"
    due = space.delayed
    assert due[b"a2"] > due[b"a1"]  # behind it, and counted as never delivered
    assert space.receives == {b"a1": 1}
    space.client.zadd(space.key("DELAYED"), {"a1": PAST})
    first = pop(space, 1)
    assert ids(first) == ["a1"]
    assert ids(pop(space, 1, settled=[(first.deadline, "a1")])) == ["a2"]


def test_an_earlier_message_of_a_run_waits_while_a_later_one_is_leased(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("a2", "a"))
    taken = pop(space, 2)
    space.nack((taken.deadline, 0, "a1"))
    assert pop(space, 5).status == "again"
    assert space.delayed[b"a1"] <= space.now() + 2 * SECOND
    assert ids(pop(space, 5, settled=[(taken.deadline, "a2")])) == ["a1"]


def test_the_later_a_message_of_a_run_the_less_often_it_looks_at_the_others(space: Space) -> None:
    record(space)
    push(space, *((f"a{n}", "a") for n in range(5)))
    taken = pop(space, 5)
    space.nack((taken.deadline, 0, *ids(taken)[1:]), way="release")
    assert pop(space, 5).status == "again"
    waits = {key: (due - space.now()) / SECOND for key, due in space.delayed.items()}
    assert [round(waits[b"a%d" % n]) for n in range(1, 5)] == [2, 3, 4, 5]


def test_one_call_looks_at_few_long_runs(space: Space) -> None:
    record(space)
    for of in range(20):
        push(space, *((f"{of}-{n}", f"g{of}") for n in range(100)))
        taken = pop(space, 100)
        space.nack((taken.deadline, 0, *ids(taken)[1:]), way="release")
    waiting = {key: PAST for key in space.delayed if key.endswith(b"-50")}
    space.client.zadd(space.key("DELAYED"), dict.fromkeys(space.delayed, space.now() + SECOND))
    space.client.zadd(space.key("DELAYED"), waiting)
    assert pop(space, 5).status == "again"
    assert sum(due == PAST for due in space.delayed.values()) == 5


def test_a_message_that_became_due_waits_its_turn(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"))
    first = pop(space, 1)
    space.delay("late", message("late", "a"), due=PAST)
    assert pop(space, 5).status == "empty"
    assert parked(space) == {"a": ["late"]}
    assert b"late" not in space.bodies
    assert "RECEIVES" not in space.dump()
    assert ids(pop(space, 5, settled=[(first.deadline, "a1")])) == ["late"]


def test_a_count_survives_being_parked(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"))
    first = pop(space, 1)
    space.delay("late", message("late", "a"), due=PAST, count=2)
    pop(space, 5)
    late = pop(space, 5, settled=[(first.deadline, "a1")])
    assert (ids(late), late.counts) == (["late"], [3])


def test_a_dead_letter_frees_its_group(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("a2", "a"))
    pop(space, 1)
    pop(space, 1)
    space.client.zadd(space.key("BACKUP"), {"a1": PAST})
    assert ids(pop(space, 5, max_receives=1)) == ["a2"]
    assert [letter[0] for letter in space.dead] == [b"a1"]
    assert busy(space) == {"a": 1}


def test_a_message_that_is_too_large_takes_no_slot(space: Space) -> None:
    record(space)
    space.push(message("a1", "a", 500), message("a2", "a"))
    assert ids(pop(space, 1, max_body=200)) == ["a2"]
    assert busy(space) == {"a": 1}


# Freed slots.


#: Ends a message in flight, given its receipt and its key.
ENDS: dict[str, Callable[[Space, int, str], object]] = {
    "reject": lambda space, receipt, key: space.reject((receipt, key)),
    "nack": lambda space, receipt, key: space.nack((receipt, 0, key), max_receives=1),
    "cancel": lambda space, receipt, key: space.call("cancel", 1, "", key),
    "ack_id": lambda space, receipt, key: space.call("ack_id", key),
}


@pytest.mark.parametrize("end", ENDS)
def test_what_ends_a_message_frees_its_group(space: Space, end: str) -> None:
    record(space)
    push(space, ("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b"), ("a3", "a"))
    taken = pop(space, 2)
    pop(space, 1)
    ENDS[end](space, taken.deadline, "a1")
    assert busy(space) == {"b": 1}
    assert turns(space) == ["a"]
    assert space.client.hkeys(space.key("GROUPS:FLIGHT")) == [b"b1"]
    wait(space)
    ENDS[end](space, taken.deadline, "b1")
    assert space.ready == [message("a2", "a")]  # it wakes a consumer
    assert turns(space) == ["b"]


@pytest.mark.parametrize("end", ENDS)
def test_what_ends_the_first_message_of_a_run_lets_the_next_one_follow(
    space: Space, end: str
) -> None:
    record(space)
    push(space, ("a1", "a"), ("a2", "a"))
    taken = pop(space, 2)
    space.nack((taken.deadline, 0, "a2"), way="release")
    assert pop(space, 1).status == "again"  # it waits for a1
    ENDS[end](space, taken.deadline, "a1")
    assert ids(pop(space, 1)) == ["a2"]
    assert busy(space) == {"a": 1}


def test_a_nack_that_returns_a_message_frees_nothing(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("a2", "a"))
    taken = pop(space, 1)
    pop(space, 1)
    space.nack((taken.deadline, 0, "a1"), max_receives=2)
    assert (busy(space), turns(space)) == ({"a": 1}, [])


@pytest.mark.parametrize("on_dead", ["continue", "stop"])
@pytest.mark.parametrize("behind", [True, False])
def test_a_message_of_a_group_that_is_given_back_wakes_a_consumer_and_stays_the_first(
    space: Space, behind: bool, on_dead: str
) -> None:
    record(space, on_dead=on_dead)
    push(space, ("a1", "a"), *([("a2", "a")] if behind else []), ("none", None))
    taken = pop(space, 2)
    wait(space)
    space.nack((taken.deadline, 0, *ids(taken)))
    assert len(space.ready) == 1
    again = pop(space, 3)
    assert sorted(ids(again)) == sorted([*ids(taken), *(["a2"] if behind else [])])
    assert [id for id in ids(again) if id[0] == "a"] == ["a1", *(["a2"] if behind else [])]
    assert again.counts[ids(again).index("a1")] == 2
    assert space.call("ack", again.deadline, len(again.keys), *again.keys) == [len(again.keys)]
    assert set(space.dump()) <= {"RECORD", "WAITERS:LOOKS", "EXPIRES"}


@pytest.mark.parametrize(("in_flight", "delay"), [(2, 0), (1, SECOND), (2, SECOND)])
def test_a_message_of_a_group_wakes_a_consumer_and_keeps_its_delay_and_its_slot(
    space: Space, in_flight: int, delay: int
) -> None:
    record(space, in_flight)
    push(space, *((f"a{n}", "a") for n in range(in_flight)))
    taken = pop(space.frozen(NOW), 3)
    wait(space)
    space.frozen(NOW).nack((taken.deadline, delay, "a0"))
    assert space.ready == [message("a0", "a")]
    push(space, ("later", "a"))
    again = pop(space.frozen(NOW + 1), 3)
    if delay:
        assert again.status == "empty"
        assert (space.delayed, busy(space)) == ({b"a0": NOW + delay}, {"a": in_flight})
        again = pop(space.frozen(NOW + delay + 1), 1)
    assert (ids(again), again.counts, parked(space)) == (["a0"], [2], {"a": ["later"]})
    assert "NOTES" not in space.dump()


def test_a_message_of_a_run_that_is_given_back_keeps_its_slot(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("a2", "a"))
    taken = pop(space, 2)
    wait(space)
    space.nack((taken.deadline, 0, "a1"))
    assert (space.ready, busy(space), parked(space)) == ([], {"a": 2}, {})


def test_a_pop_that_finds_nothing_frees_lost_slots(space: Space) -> None:
    record(space)
    push(space, *((f"{tag}{n}", tag) for n in range(2) for tag in "abc"))
    taken = pop(space, 3)
    assert without_groups(space).ack((taken.deadline, "a0", "b0", "c0")) == [3]
    assert pop(space, 1).status == "again"
    assert sorted(ids(pop(space, 3))) == ["a1", "b1", "c1"]
    assert busy(space) == {"a": 1, "b": 1, "c": 1}


def test_a_queue_that_is_never_empty_frees_lost_slots(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c"))
    pop(space, 1)
    space.client.hdel(space.key("CONTEXT"), "a1")
    space.client.zrem(space.key("BACKUP"), "a1")
    assert ids(pop(space, 1)) == ["b1"]
    assert ids(pop(space, 1, jitter=1)) == ["c1"]
    assert turns(space) == ["a"]


def test_a_new_message_with_the_id_of_a_lost_one_frees_its_slot(space: Space) -> None:
    record(space)
    push(space, ("m", "a"))
    taken = pop(space, 1)
    without_groups(space).ack((taken.deadline, "m"))
    push(space, ("m", "b"))
    assert ids(pop(space, 1)) == ["m"]
    assert busy(space) == {"b": 1}


def test_nothing_is_left_of_groups_that_are_done(space: Space) -> None:
    record(space)
    push(space, *((f"m{n}", f"g{n % 7}") for n in range(30)))
    settled: list[tuple[int | bytes, ...]] = []
    while (taken := pop(space, 10, settled=settled)).messages:
        settled = [(taken.deadline, *taken.keys)]
    assert space.dump().keys() == {"RECORD"}


# Waking.


def test_a_freed_slot_wakes_a_consumer_that_waits(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("a2", "a"), ("a3", "a"))
    first = pop(space, 1)
    pop(space, 1)
    wait(space)
    space.call("ack", first.deadline, 1, "a1")
    assert space.ready == [message("a2", "a")]
    assert turns(space) == []
    space.client.lmove(space.name, space.key("HANDOFF"), "RIGHT", "LEFT")
    push(space, ("a4", "a"))
    assert ids(pop(space, 1)) == ["a2"]
    assert parked(space) == {"a": ["a3", "a4"]}


def test_a_group_whose_message_moved_to_the_list_waits_for_it(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("a2", "a"), ("a3", "a"))
    first = pop(space, 1)
    pop(space, 1)
    wait(space)
    space.call("ack", first.deadline, 1, "a1")
    space.delay("late", message("late", "a"), due=PAST)
    assert ids(pop(space, 1)) == ["a2"]
    assert parked(space) == {"a": ["a3", "late"]}


def test_a_message_on_the_list_keeps_the_turn_of_its_group(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"), ("b3", "b"))
    first = pop(space, 1)
    assert ids(pop(space, 1)) == ["b1"]
    wait(space)
    space.call("ack", first.deadline, 1, "a1")
    assert space.ready == [message("a2", "a")]
    wait(space)
    space.call("ack", space.client.zscore(space.key("BACKUP"), "b1"), 1, "b1")
    assert turns(space) == ["b"]
    assert ids(pop(space, 1)) == ["a2"]


@pytest.mark.timeout(20)
def test_turns_of_parked_messages_that_are_gone_end(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("a2", "a"), ("b1", "b"))
    first = pop(space, 1)
    assert ids(pop(space, 1)) == ["b1"]
    assert space.call("ack", first.deadline, 1, "a1") == [1]
    assert turns(space) == ["a"]
    space.client.delete(space.key("GROUPS:PARKED"))
    assert pop(space, 1).status == "empty"
    assert turns(space) == []


@pytest.mark.parametrize("others", [True, False])
def test_a_bare_pop_of_a_message_that_woke_a_consumer_blocks_nobody(
    space: Space, others: bool
) -> None:
    record(space)
    push(space, ("a1", "a"), ("a2", "a"), ("a3", "a"))
    first = pop(space, 1)
    pop(space, 1)
    wait(space)
    space.call("ack", first.deadline, 1, "a1")
    assert json.loads(space.client.rpop(space.name))["id"] == "a2"
    if others:
        push(space, ("b1", "b"), ("a4", "a"))
    assert ids(pop(space, 1)) == ["a3"]
    assert parked(space) == ({"a": ["a4"]} if others else {})
    assert space.ready == [message("b1", "b")] * others  # it wakes the next consumer


# The record.


def test_only_consumers_that_know_the_groups_may_take(space: Space) -> None:
    push(space, ("a1", "a"))
    with pytest.raises(ResponseError, match="ACKQ_RECORD"):
        space.call("groups/pop", 1, SECOND, 0, 0, MIB, RECORD, -1)
    record(space)
    with pytest.raises(ResponseError, match="ACKQ_RECORD"):
        space.call("groups/pop", 1, SECOND, 0, 0, MIB, RECORD.replace(" 1 ", " 2 "), -1)
    with pytest.raises(ResponseError, match="ACKQ_RECORD"):
        without_groups(space).pop()
    assert len(space.ready) == 1


def test_the_record_is_forgotten_once_nothing_is_parked(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b"), ("a3", "a"))
    taken = pop(space, 2)
    pop(space, 1)
    space.call("ack", taken.deadline, 1, "b1")
    assert turns(space) == ["b"]
    assert space.call("forget") == 0
    assert space.call("groups/drain", 2) == 2
    assert space.call("groups/drain", 1000) == 1
    assert space.call("groups/drain", 1000) == 0
    order = [json.loads(each)["id"] for each in space.ready]
    assert [each for each in order if each[0] == "a"] == ["a2", "a3"]
    assert "b2" in order
    assert turns(space) == []
    assert space.call("forget") == space.call("forget") == 1
    assert space.dump().keys() == {"", "BACKUP", "CONTEXT"}


def test_a_long_batch_leaves_nothing_when_it_is_acked(space: Space) -> None:
    record(space)
    push(space, *((f"{tag}{n}", tag) for tag in "ab" for n in range(50)))
    taken = pop(space, 100)
    assert space.call("ack", taken.deadline, 100, *taken.keys) == [100]
    assert busy(space) == {}
    assert space.dump().keys() == {"RECORD"}


def test_the_types_of_all_keys_are_read_before_the_record_is_forgotten(space: Space) -> None:
    for slot in parse(read(space.directory, "forget")).grouped:
        record(space)
        key = space.key(slot.suffix)
        space.client.lpush(key, "") if slot.type == "string" else space.client.set(key, "")
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            space.call("forget")
        assert space.client.exists(space.key("RECORD")), slot
        space.clear()


@pytest.mark.parametrize("waits", [True, False])
def test_drained_messages_keep_the_order_of_their_groups(space: Space, waits: bool) -> None:
    record(space)
    push(space, *((f"a{n}", "a") for n in range(4)))
    held = pop(space, 1)
    assert pop(space, 1, waited=0).status == "empty"
    assert space.call("ack", held.deadline, 1, "a0")  # a1 moves to the list
    push(space, ("b1", "b"), ("a4", "a"))
    if waits:  # the commands of consumers that wait
        for _ in range(3):
            space.client.lmove(space.key(""), space.key("HANDOFF"), "RIGHT", "LEFT")
    while space.call("groups/drain", 1):
        pass
    assert [json.loads(body)["id"] for body in space.ready] == ["a1", "a2", "a3", "b1", "a4"]
    assert not space.client.exists(*map(space.key, ("HANDOFF", "GROUPS:TURNS", "GROUPS:WOKEN")))


def test_a_message_on_its_only_permitted_delivery_is_delivered_alone(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"), ("b1", "b"))
    assert [ids(pop(space, 5, max_receives=1)) for _ in range(3)] == [["a1"], ["b1"], []]


def test_a_consumer_that_gets_the_last_message_is_seen_to_wait(space: Space) -> None:
    record(space)
    push(space, ("a1", "a"))
    assert pop(space, 1, waited=0).status == "last"
    assert space.client.exists(space.key("WAITERS:LOOKS"))
