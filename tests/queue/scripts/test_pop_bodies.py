"""pop: which key a body gets, and how much one call reads and moves."""

import pytest

from tests.queue.scripts.space import MIB, NOW, PAST, SECOND, Popped, Space, body

# Lease keys.

DERIVED = b"\0%d:0001"


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (b'{"id": "a", "x": 1}', b"a"),
        (b'{"id" : 5}', b"5"),
        (b'{"x":{"id":"no"},"id":"a"}', b"a"),
        (b'{"id":-9007199254740991}', b"-9007199254740991"),
        (b'{"id":"\xff"}', b"\xff"),
        (b'{"id":"a\\u0000b"}', b"a\0b"),
        (b'{"x":1,"id":"' + b"a" * 512 + b'"}', b"a" * 512),
        (b'{"id":"a"', b"a"),  # no JSON, but the id can be read
    ],
)
def test_the_key_is_the_id(space: Space, raw: bytes, key: bytes) -> None:
    space.push(raw)
    assert space.pop().messages == [(key, raw)]
    assert space.bodies == {key: raw}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"id",
        b'{"id":""}',
        b'{"id":1.5}',
        b'{"id":9007199254740992}',
        b'{"id":"\\u0000a"}',
        b'{"x":1,"id":"a"} trailing',
        b'{"x":1,"id":"' + b"a" * 513 + b'"}',
        b'{"id":"a\0b',
    ],
)
def test_a_body_without_a_usable_id_gets_a_derived_key(space: Space, raw: bytes) -> None:
    space.push(raw)
    popped = space.pop()
    assert popped.messages == [(DERIVED % popped.deadline, raw)]
    assert space.bodies == dict(popped.messages)
    assert space.ack((popped.deadline, *popped.keys)) == [1]
    assert space.dump() == {}


def test_a_duplicate_id_in_flight_gets_a_derived_key_and_both_bodies_survive(space: Space) -> None:
    first, second = b'{"id":"a","n":1}', b'{"id":"a","n":2}'
    space.push(first, second)
    held, other = space.pop(), space.pop()
    assert other.keys == [b"\0a" + DERIVED % other.deadline]
    assert space.bodies == {b"a": first, other.keys[0]: second}
    assert space.ack((held.deadline, "a")) == [1]
    assert space.bodies == {other.keys[0]: second}
    assert space.leases == {other.keys[0]: other.deadline}


def test_a_duplicate_does_not_inherit_the_count_of_the_message_whose_id_it_has(
    space: Space,
) -> None:
    space.lease("a", count=5)
    space.push(body("a"))
    popped = space.pop(max_receives=5)
    assert popped.counts == [1]
    assert space.receives == {b"a": 5}


def test_duplicate_ids_in_one_batch_get_keys_of_their_own(space: Space) -> None:
    space.push(body("a"), body("a"), b"{}", body("a"))
    popped = space.pop(4)
    derived = [
        b"%s\0%d:%04d" % (of, popped.deadline, number)
        for number, of in enumerate((b"\0a", b"", b"\0a"), 1)
    ]
    assert popped.keys == [b"a", *derived]
    assert space.ack((popped.deadline, *popped.keys)) == [4]


def test_an_id_and_the_number_of_the_same_digits_do_not_share_a_key(space: Space) -> None:
    space.push(b'{"id":"1"}', b'{"id":1}')
    popped = space.pop(2)
    assert popped.keys == [b"1", b"\x001" + DERIVED % popped.deadline]


def test_the_id_of_a_delayed_message_is_not_free(space: Space) -> None:
    space.delay("a", b"delayed")
    space.push(body("a"))
    popped = space.pop()
    assert popped.keys == [b"\0a" + DERIVED % popped.deadline]
    assert space.bodies == {b"a": b"delayed", popped.keys[0]: body("a")}


def test_an_orphan_in_context_is_never_overwritten(space: Space) -> None:
    space.client.hset(space.key("CONTEXT"), "a", "orphan")
    space.push(body("a"))
    popped = space.pop()
    assert space.bodies == {b"a": b"orphan", popped.keys[0]: body("a")}


def test_a_derived_key_never_collides_with_one_that_exists(space: Space) -> None:
    lease = NOW + 30 * SECOND
    for number in (1, 2, 4):
        space.client.hset(space.key("CONTEXT"), b"\0%d:%04d" % (lease, number), "taken")
    space.push(b"first", b"second")
    popped = space.frozen().pop(2)
    assert popped.keys == [b"\0%d:%04d" % (lease, number) for number in (3, 5)]
    assert len(space.bodies) == 5


def test_an_id_that_looks_like_a_derived_key_is_derived(space: Space) -> None:
    lease = NOW + 30 * SECOND
    space.push(b'{"id":"\\u0000%d:0001","n":1}' % lease, b"{}")
    assert space.frozen().pop(2).keys == [b"\0%d:0001" % lease, b"\0%d:0002" % lease]


def test_a_free_id_is_taken_again_once_its_holder_acked(space: Space) -> None:
    space.push(body("a"), body("a"))
    held = space.pop()
    assert space.pop(settled=[(held.deadline, "a")]).keys == [b"a"]


@pytest.mark.parametrize(
    "raw",
    [
        b'{"id":"a","x":[],"y":{},"n":12345678901234567890,"f":1.10,"u":"\\u00e9\\/"}',
        b'{"x":[],"y":{},"n":12345678901234567890,"f":1.10,"u":"\\u00e9\\/","id":"a"}',
        b'{"id" : "a" , "x" : [ ] }\r\n',
        b'{"id":"a"}\0\xff\xfe',
        b"\0",
        b"",
        bytes(range(256)),
    ],
)
def test_a_body_is_returned_byte_for_byte(space: Space, raw: bytes) -> None:
    space.push(raw)
    assert space.pop(timeout=1).bodies == [raw]
    assert space.pop(timeout=1).bodies == [raw]
    assert list(space.bodies.values()) == [raw]


# Limits of one call.


def long_tail(number: int, size: int, digits: int = 1) -> bytes:
    """Return a body whose id stands last, so that the script must decode it."""
    tail = b',"id":"%0*d"}' % (digits, number)
    return b'{"x":"' + b"x" * (size - 7 - len(tail)) + b'"' + tail


def test_a_body_over_the_decode_limit_is_leased_undecoded(space: Space) -> None:
    within, over = long_tail(1, 65536), long_tail(2, 65537)
    space.push(within, over)
    popped = space.pop(2)
    assert popped.messages == [(b"1", within), (DERIVED % popped.deadline, over)]


def test_the_longest_id_in_the_longest_body_to_decode_is_read(space: Space) -> None:
    space.push(long_tail(1, 65536, digits=512), long_tail(2, 65536, digits=512))
    assert [space.pop(2).keys for _ in range(3)] == [[b"%0512d" % 1], [b"%0512d" % 2], []]


def test_an_id_that_stands_first_is_read_whatever_the_length(space: Space) -> None:
    space.push(body("a", padding=200_000))
    assert space.pop().keys == [b"a"]


def test_one_call_decodes_one_body_of_the_longest(space: Space) -> None:
    space.push(*(long_tail(number, 65536) for number in range(3)))
    assert [space.pop(3).keys for _ in range(4)] == [[b"0"], [b"1"], [b"2"], []]


def test_decoding_ends_in_the_middle_of_a_slice(space: Space) -> None:
    space.push(*(long_tail(number, 6000) for number in range(15)))
    assert len(space.pop(15).keys) == 10  # ten and their search cost 67,500 of 73,728 bytes
    assert len(space.pop(15).keys) == 5


def test_decoding_may_end_before_the_first_of_a_slice(space: Space) -> None:
    space.push(long_tail(0, 40000), body("a", padding=30000), long_tail(1, 40000), body("b"))
    space.list_note("1", long_tail(1, 40000), 1)
    assert space.pop(4).keys == [b"0", b"a"]
    popped = space.pop(4)
    assert (popped.keys, popped.counts) == ([b"1", b"b"], [2, 1])


def test_a_search_for_an_id_costs_an_eighth_of_a_decode(space: Space) -> None:
    space.push(*[b"x" * 6000] * 120)
    assert len(space.pop(120).keys) == 98


def test_bodies_that_need_no_decode_do_not_count_as_decoded(space: Space) -> None:
    space.push(*(body(str(number), padding=65000) for number in range(10)))
    assert len(space.pop(10).keys) == 10


@pytest.mark.parametrize("field", ["taken", "acked", "returned", "timeout:30"])
def test_counters_that_cannot_count_stop_nothing(space: Space, field: str) -> None:
    space.client.hset(space.key("COUNTERS"), field, "somebody else's")
    space.push(body("a"))
    space.lease("e", deadline=PAST)
    popped = space.pop(2)
    assert popped.keys == [b"e", b"a"]
    assert space.ack((popped.deadline, "e")) == [1]
    assert space.pop(settled=[(popped.deadline, "a")]).status == "empty"
    assert space.dump() == {"COUNTERS": {field.encode(): b"somebody else's"}}


def test_one_call_moves_a_mebibyte(space: Space) -> None:
    space.push(*(body(str(number), padding=MIB // 8 - 100) for number in range(12)))
    assert len(space.pop(12).keys) == 9  # the ninth is the first to pass 1 MiB
    assert len(space.ready) == 3
    assert len(space.pop(12).keys) == 3


def test_one_message_may_pass_the_mebibyte(space: Space) -> None:
    space.push(*(body(str(number), padding=3 * MIB // 4) for number in range(3)))
    assert space.pop(3).keys == [b"0", b"1"]
    assert space.pop(3).keys == [b"2"]


def test_what_came_back_counts_toward_the_mebibyte(space: Space) -> None:
    for number in range(3):
        space.lease(str(number), b"x" * (3 * MIB // 4), deadline=PAST + number)
    space.push(body("a"))
    assert space.pop(4).keys == [b"0", b"1"]
    assert space.pop(4).keys == [b"2", b"a"]


def test_no_body_is_read_to_learn_whether_an_id_is_free(space: Space) -> None:
    large = body("a", padding=MIB // 32)
    space.lease("a", large)
    space.push(*[body("a")] * 1000)
    weighed = space.weigh("pop", 1000, 30 * SECOND, 0, 0, MIB, "front", "right", -1)
    assert len(Popped.of(weighed.reply).keys) == 1000
    assert weighed.total < MIB // 8
    assert space.bodies[b"a"] == large


def test_what_came_back_is_read_one_by_one(space: Space) -> None:
    for number in range(40):
        space.lease(str(number), b"x" * (MIB // 2), deadline=PAST + number)
    weighed = space.weigh("pop", 40, 30 * SECOND, 0, 0, MIB, "front", "right", -1)
    assert len(Popped.of(weighed.reply).keys) == 2
    assert weighed.total < MIB + 1000


def test_of_a_list_no_more_is_read_at_a_time_than_was_short_before(space: Space) -> None:
    large = body("large", padding=MIB // 2)
    space.push(body("a"), body("b"), *[large] * 20)
    weighed = space.weigh("pop", 22, 30 * SECOND, 0, 0, 1000, "front", "right", -1)
    assert Popped.of(weighed.reply).keys == [b"a", b"b"]
    assert weighed.total < 3 * MIB // 2
    assert len(space.dead) == 2


def test_too_large_a_body_goes_to_the_dead_letters_undecoded(space: Space) -> None:
    large = body("a", padding=1000)
    space.push(large, body("b"))
    popped = space.pop(2, max_body=100)
    assert popped.keys == [b"b"]
    assert space.dead == [(b"", large, "too large", 0)]  # its id was not even looked for
    assert space.leases == {b"b": popped.deadline}
    assert space.ready == []


def test_the_longest_permitted_body_is_delivered(space: Space) -> None:
    raw = body("a", padding=100)
    space.push(raw)
    assert space.pop(max_body=len(raw) - 1).status == "again"
    space.push(raw)
    assert space.pop(max_body=len(raw)).keys == [b"a"]


def test_a_call_that_only_dead_letters_asks_for_another(space: Space) -> None:
    space.push(b"x" * 101)
    assert space.pop(max_body=100).status == "again"
    assert space.pop(max_body=100).status == "empty"
    assert len(space.dead) == 1


def test_one_call_buries_a_hundred(space: Space) -> None:
    for number in range(150):
        space.lease(str(number), deadline=PAST, count=3)
    assert space.pop(1000, max_receives=3).status == "again"
    assert (len(space.dead), len(space.leases)) == (100, 50)
    assert space.pop(1000, max_receives=3).status == "again"
    assert space.pop(1000, max_receives=3).status == "empty"
    assert len(space.dead) == 150
    assert space.dump().keys() == {"DEAD"}


def test_what_came_back_fills_the_room_that_a_dead_letter_leaves(space: Space) -> None:
    for number, key in enumerate(("dead", "a", "b")):
        space.lease(key, deadline=PAST + number, count=3 if key == "dead" else None)
    space.push(body("c"))
    assert space.pop(1, max_receives=3).keys == [b"a"]
    assert space.pop(2, max_receives=3).keys == [b"b", b"c"]


def test_a_dead_letter_delivers_nothing_twice(space: Space) -> None:
    """The messages taken before it keep their old scores until the end of the call."""
    for number, key in enumerate(("a", "dead", "b", "dead too", "c")):
        space.lease(key, deadline=PAST + number, count=3 if key.startswith("dead") else None)
    assert space.pop(10, max_receives=3).keys == [b"a", b"b", b"c"]
    assert [letter[0] for letter in space.dead] == [b"dead", b"dead too"]


def test_what_is_due_fills_the_room_that_a_dead_letter_leaves(space: Space) -> None:
    for number, key in enumerate(("dead", "a", "b")):
        space.delay(key, due=PAST + number, count=3 if key == "dead" else None)
    space.push(body("c"))
    assert space.pop(2, max_receives=3, requeue="back").keys == [b"a", b"b"]
    assert space.ready == [body("c")]


def test_dead_letters_of_one_call_are_limited_however_many_fill_their_room(space: Space) -> None:
    for number in range(150):
        space.lease(str(number), deadline=PAST, count=3)
    assert space.pop(1, max_receives=3).status == "again"
    assert len(space.dead) == 100
