"""held/*, and how pop, stats and the others treat lists that are held outside the queue."""

import pytest

from tests.queue.scripts.space import CLAIM, FUTURE, MIB, NOW, PAST, SECOND, Space, body
from tests.queue.scripts.test_own_servers import exhaust_memory
from tests.queue.scripts.test_stats import stats


def bodies(*ids: str) -> list[bytes]:
    return [body(id) for id in ids]


def give_back(space: Space, mode: str = "front") -> list[int]:
    reply: list[int] = space.call("held/give_back", mode, space.end)
    return reply


# Giving back.


def test_a_claim_goes_in_front_of_the_queue_in_its_order(space: Space) -> None:
    space.push(*bodies("c", "d"))
    space.hold(*bodies("a", "b"), until=PAST)
    assert give_back(space) == [2, 0]
    assert space.ready == bodies("a", "b", "c", "d")
    assert set(space.dump()) == {""}


def test_the_order_of_a_claim_is_kept_for_consumers_that_wait(space: Space) -> None:
    names = [f"{number:05d}" for number in range(1010)]
    space.push(body("other"))
    space.hold(*bodies(*names), until=PAST)
    left = 1
    while left:
        _, left = give_back(space)
        for _ in range(3):  # as BLMOVE does
            space.client.lmove(space.name, space.key("HANDOFF"), "RIGHT", "LEFT")
    assert space.front == bodies(*names, "other")


def test_a_claim_goes_in_front_of_what_was_handed_over(space: Space) -> None:
    space.push(body("d"))
    space.hand_over(body("c"))
    space.hold(*bodies("a", "b"), until=PAST)
    assert give_back(space) == [2, 0]
    assert space.front == bodies("a", "b", "c", "d")


def test_a_committed_list_goes_behind_the_queue_in_its_order(space: Space) -> None:
    space.push(*bodies("a", "b"))
    space.hold(*bodies("c", "d"), until=0)
    assert give_back(space, "back") == [2, 0]
    assert space.ready == bodies("a", "b", "c", "d")
    assert set(space.dump()) == {""}


def test_messages_for_later_are_scheduled_under_their_own_ids(space: Space) -> None:
    space.lease("b", body("b"))
    space.hold(
        b"%d:" % FUTURE + body("a"),
        b"7:" + body("b"),
        b'7:{"id":12,"x":1}',
        b"7:no id\n",
        b"99999999999999999999999:{}",
        b"no time",
        until=0,
    )
    frozen = space.frozen()
    assert give_back(frozen, "delayed") == [6, 0]
    derived = {key: due for key, due in space.delayed.items() if key.startswith(b"\0")}
    natural = {key: due for key, due in space.delayed.items() if key not in derived}
    assert natural == {b"a": FUTURE, b"12": 8}
    assert sorted(derived.values()) == [7, 9, NOW, 2**53 - 1]
    assert {space.bodies[key] for key in derived} == {body("b"), b"no id\n", b"{}", b"no time"}
    assert space.bodies[b"12"] == b'{"id":12,"x":1}'
    assert space.leases == {b"b": FUTURE}
    assert not {CLAIM, "HELD", "HELDROWS"} & set(space.dump())


def test_messages_for_one_time_keep_the_order_of_a_commit(space: Space) -> None:
    ids = [str(2000 - number) for number in range(700)]
    space.hold(*(b"%d:" % FUTURE + body(id) for id in ids), until=0)
    while give_back(space, "delayed")[1]:
        pass
    assert space.client.zrange(space.key("DELAYED"), 0, -1) == [id.encode() for id in ids]


@pytest.mark.parametrize(("until", "given"), [(NOW, [1, 0]), (NOW + 1, [0, 0])])
def test_a_list_is_given_back_when_its_time_has_come(
    space: Space, until: int, given: list[int]
) -> None:
    space.hold(body("a"), until=until)
    before = space.dump()
    assert give_back(space.frozen()) == given
    if given == [0, 0]:
        assert space.dump() == before


def test_a_list_that_is_not_held_stays_as_it_is(space: Space) -> None:
    space.client.lpush(space.key(CLAIM), "kept")
    before = space.dump()
    assert give_back(space) == [0, 0]
    assert space.dump() == before


@pytest.mark.parametrize(("mode", "step"), [("front", 1000), ("back", 1000), ("delayed", 500)])
def test_a_long_list_is_given_back_step_by_step(space: Space, mode: str, step: int) -> None:
    names = [f"{number:05d}" for number in range(step + 10)]
    space.push(body("other"))
    space.hold(*((b"7:" if mode == "delayed" else b"") + body(name) for name in names), until=PAST)
    assert give_back(space, mode) == [step, 10]
    assert space._scores("HELD") == {space.key(CLAIM): 0}  # it must not look like a claim
    assert space.client.hgetall(space.key("HELDROWS")) == {space.key(CLAIM): b"10"}
    assert give_back(space, mode) == [10, 0]
    if mode == "front":
        assert space.front == bodies(*names, "other")
        assert len(space.ready) == 101  # the rest is where no waiting consumer moves it
    elif mode == "back":
        assert space.ready == bodies("other", *names)
    else:
        assert set(space.delayed) == {name.encode() for name in names}


@pytest.mark.parametrize("mode", ["front", "back", "delayed"])
def test_one_step_moves_a_mebibyte_or_half_of_it(space: Space, mode: str) -> None:
    space.hold(*(b"x" * (3 * MIB // 8) for _ in range(5)), until=PAST)
    assert give_back(space, mode) == ([2, 3] if mode == "delayed" else [3, 2])


def test_the_longest_id_is_found(space: Space) -> None:
    longest, longer = b"x" * 512, b"y" * 513
    space.hold(b'7:{"id": "%s"}' % longest, b'7:{"id":"%s"}' % longer, until=0)
    assert give_back(space, "delayed") == [2, 0]
    assert [key for key in space.bodies if not key.startswith(b"\0")] == [longest]


@pytest.mark.parametrize("found", ["none", "string"])
def test_a_held_name_that_is_no_list_is_let_go_and_not_touched(space: Space, found: str) -> None:
    space.hold(body("a"), until=PAST)
    space.client.delete(space.key(CLAIM))
    if found == "string":
        space.client.set(space.key(CLAIM), "of others")
    assert give_back(space) == [0, 0]
    assert space.dump() == ({CLAIM: b"of others"} if found == "string" else {})
    space.push(body("b"))
    assert space.pop().keys == [b"b"]


def test_an_expiry_of_a_held_list_cannot_lose_it(space: Space) -> None:
    space.hold(*bodies(*map(str, range(1010))), until=PAST)
    space.client.expire(space.key(CLAIM), 1000)
    assert give_back(space) == [1000, 10]
    assert "EXPIRES" not in space.dump()


@pytest.mark.parametrize("mode", ["front", "back", "delayed"])
def test_a_full_server_takes_back_what_is_held(own_space: Space, mode: str) -> None:
    own_space.hold(b"7:" + body("a"), until=PAST)
    exhaust_memory(own_space)
    assert give_back(own_space, mode) == [1, 0]


# Scanning, dropping, auditing.


def test_a_scan_returns_all_lists_with_times_and_rows(space: Space) -> None:
    space.hold(*bodies("a", "b"), until=FUTURE)
    space.hold(body("c"), until=0, suffix="STAGED:w:1:0")
    before = space.dump()
    cursor, now, *found = space.frozen().call("held/scan", 0, "right")
    assert (cursor, now) == (b"0", NOW)
    entries = {tuple(found[at : at + 3]) for at in range(0, len(found), 3)}
    assert entries == {
        (space.key(CLAIM), b"%d" % FUTURE, b"2"),
        (space.key("STAGED:w:1:0"), b"0", b"1"),
    }
    assert space.dump() == before


def test_a_dropped_list_is_deleted_only_if_it_is_held_and_a_list(space: Space) -> None:
    space.hold(*bodies("a", "b"))
    assert space.call("held/drop") == 2
    assert space.dump() == {}
    space.client.lpush(space.key(CLAIM), "kept")
    assert space.call("held/drop") == 0
    space.client.delete(space.key(CLAIM))
    space.client.set(space.key(CLAIM), "of others")
    space.client.zadd(space.key("HELD"), {space.key(CLAIM): 1})
    assert space.call("held/drop") == 0
    assert space.dump() == {CLAIM: b"of others"}


def test_a_held_list_in_order_is_not_reported(space: Space) -> None:
    space.hold(body("a"))
    before = space.dump()
    assert space.call("held/audit", 1) == []
    assert space.dump() == before


def test_what_is_wrong_with_a_held_list_is_reported_and_repaired(space: Space) -> None:
    space.hold(body("a"))
    before = space.dump()
    space.client.expire(space.key(CLAIM), 1000)
    space.client.hset(space.key("HELDROWS"), space.key(CLAIM), 7)
    problems = [b"the key expires", b"wrong row count"]
    assert space.call("held/audit", 0) == problems
    assert space.call("held/audit", 1) == problems
    assert space.dump() == before
    space.client.delete(space.key(CLAIM))
    assert space.call("held/audit", 0) == [b"held list missing"]
    space.client.set(space.key(CLAIM), "of others")
    assert space.call("held/audit", 1) == [b"held key is no list"]
    assert space.dump() == {CLAIM: b"of others"}
    assert space.call("held/audit", 1) == []


# pop and stats.


def test_a_pop_asks_for_what_is_held_no_longer_and_takes_nothing(space: Space) -> None:
    space.push(body("a"))
    space.lease("b", deadline=PAST)
    space.hold(body("c"), until=NOW)
    space.hold(body("d"), until=PAST, suffix="CLAIM:g:1")
    before = space.dump()
    popped = space.frozen().pop(10)
    assert (popped.status, popped.held) == ("held", space.key("CLAIM:g:1"))
    assert space.dump() == before


def test_a_pop_settles_before_it_asks_for_what_is_held_no_longer(space: Space) -> None:
    space.lease("a")
    space.hold(body("c"), until=PAST)
    popped = space.pop(settled=[(FUTURE, "a", "b")])
    assert (popped.status, popped.refused) == ("held", [-2])
    assert space.leases == {}


def test_a_claim_that_is_held_does_not_stop_a_pop(space: Space) -> None:
    space.push(*bodies("a", "b"))
    space.hold(body("c"), until=NOW + 1)
    assert space.frozen().pop(1).keys == [b"a"]
    assert space.frozen().pop(10).keys == [b"b"]


def test_nothing_is_given_back_to_a_paused_queue(space: Space) -> None:
    space.hold(body("a"), until=PAST)
    space.client.set(space.key("PAUSED"), 1)
    assert space.pop().status == "paused"


def test_an_empty_queue_waits_for_the_end_of_a_claim(space: Space) -> None:
    space.hold(body("a"), until=NOW + 5 * SECOND)
    space.lease("b", deadline=NOW + 9 * SECOND)
    assert space.frozen().pop().wait == 5 * SECOND


def test_stats_count_what_is_held_where_it_belongs(space: Space) -> None:
    space.hold(*bodies("a", "b", "c"), until=NOW + 9)
    space.hold(*bodies("d", "e"), until=NOW, suffix="CLAIM:g:1")
    space.hold(body("f"), until=0, suffix="STAGED:w:1:0")
    space.hold(b"7:" + body("g"), until=0, suffix="STAGED:w:1:0:delayed")
    assert stats(space.frozen()) == {"claimed": 3, "returned": 3, "later": 1, "until_held": -NOW}


# Watching.


def counted(space: Space) -> dict[bytes, int]:
    found = space.client.hgetall(space.key("COUNTERS"))
    left_out = (b"since", b"live", b"held")
    return {field: int(value) for field, value in found.items() if field not in left_out}


def test_what_was_counted_goes_on_while_calls_follow_each_other(space: Space) -> None:
    space.frozen().call("watch", 50_000)
    space.client.hincrby(space.key("COUNTERS"), "acked", 3)
    space.push(body("a"))
    space.lease("b")
    reply = space.frozen(NOW + 7).call("watch", 50_000)
    assert reply == [
        NOW + 7,
        2,
        1,
        b"since",
        b"%d" % NOW,
        b"live",
        b"0",
        b"held",
        b"0",
        b"acked",
        b"3",
    ]


def test_watching_begins_goes_on_and_ends_by_itself(space: Space) -> None:
    first = [NOW, 0, 0, b"since", b"%d" % NOW, b"live", b"0", b"held", b"0"]
    assert space.frozen().call("watch", 1000) == first
    space.frozen().call("watch", 50_000)
    space.frozen().call("watch", 1000)  # a shorter window shortens nothing
    assert 40_000 < space.client.pttl(space.key("COUNTERS")) <= 50_000
    assert space.dump()["EXPIRES"] == ["COUNTERS"]


def test_staged_messages_are_not_in_flight(space: Space) -> None:
    space.hold(*bodies("a", "b"), suffix="CLAIM:STAGED:1:1")
    space.hold(body("c"), suffix="STAGED:CLAIM:1:t", until=0)
    space.hold(body("d"), suffix="CLAIM:STAGED:1:2", until=0)
    assert space.call("watch", 10_000)[1:3] == [4, 3]


def test_pops_and_acks_are_counted_while_they_are_watched(space: Space) -> None:
    space.call("watch", 10_000)
    space.push(*bodies("a", "b", "c", "d"))
    space.lease("e", deadline=PAST)
    first = space.pop(3, timeout=30 * SECOND)
    assert counted(space) == {b"returned": 1, b"lease:30": 3}
    second = space.pop(1, timeout=SECOND - 1, settled=[(first.deadline, "e", "a", "gone")])
    space.ack((second.deadline, "c"), (7, "b"))
    assert counted(space) == {
        b"returned": 1,
        b"acked": 3,
        b"lease:30": 3,
        b"lease:0": 1,
    }


def test_what_goes_to_the_back_is_counted_as_returned(space: Space) -> None:
    space.call("watch", 10_000)
    space.lease("e", deadline=PAST)
    space.pop(requeue="back")
    assert counted(space)[b"returned"] == 1


def test_lengths_of_leases_are_counted_up_to_a_number(space: Space) -> None:
    space.call("watch", 10_000)
    space.push(*bodies(*(str(number) for number in range(120))))
    for number in range(110):
        space.pop(timeout=number * SECOND + 1)
    space.pop(timeout=SECOND)
    fields = counted(space)
    assert len(fields) == 97
    assert fields[b"lease:1"] == 2


def test_a_full_server_can_be_watched(own_space: Space) -> None:
    exhaust_memory(own_space)
    assert own_space.call("watch", 10_000)[3] == b"since"
    own_space.client.config_set("maxmemory", 0)
    own_space.push(body("a"))
    exhaust_memory(own_space)
    assert own_space.pop().keys == [b"a"]
    assert counted(own_space)[b"lease:30"] == 1
