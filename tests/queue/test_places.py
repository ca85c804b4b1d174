"""find_all and search agree with a look at every key, whatever the queue holds."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ackq import Queue, scripts
from ackq.config import PopFrom
from ackq.core.ids import text_of_key
from ackq.queue import cancel_notes
from tests.queue.scripts.space import FUTURE, PAST, Space, listed_field

#: What a place makes of a message.
STATES = {
    "ready": "ready",
    "handoff": "ready",
    "claim ended": "ready",
    "row": "ready",
    "expired": "ready",
    "due": "ready",
    "claimed": "in_flight",
    "leased": "in_flight",
    "no body": "in_flight",
    "later row": "delayed",
    "delayed": "delayed",
    "dead": "dead",
}
IDS = ("a", 'q"/ü', "17", 17, -3, "a-1", "\x01", "x" * 512)
bodies = st.one_of(
    st.builds(
        lambda fields, late, plain: json.dumps(
            dict(sorted(fields.items(), reverse=late)), ensure_ascii=not plain
        ).encode(),
        st.fixed_dictionaries(
            {"n": st.integers(0, 2)},
            optional={
                "id": st.sampled_from(IDS),
                "of": st.sampled_from(({"n": 1}, {"n": "1"}, None, [1], "a", 1.0, True)),
            },
        ),
        st.booleans(),
        st.booleans(),
    ),
    st.sampled_from((b"", b"17", b"\xff\x00", b'{"id":"a"', b'{"id":"\\u0061","n":1.0}', b"[]")),
)
messages = st.lists(st.tuples(st.sampled_from(sorted(STATES)), bodies), max_size=25)
WHERE: tuple[dict[str, Any], ...] = (
    {"n": 1},
    {"of.n": 1},
    {"of.n": "1"},
    {"of": None},
    {"of": True},
    {"of": "a", "n": 0},
)


def fill(space: Space, held: Iterable[tuple[str, bytes]]) -> list[tuple[str, str, bytes]]:
    """Put each message into its place; return the id, state and body of each."""
    lists: dict[str, list[bytes]] = {}
    expected = []
    taken: set[bytes] = set()
    for number, (place, body) in enumerate(held):
        key = b""
        score = (PAST if place in ("expired", "due") else FUTURE) + number
        match place:
            case "leased" | "expired" | "delayed" | "due" | "no body":
                natural = text_of_key(b"", body).encode()
                key = natural if natural and natural not in taken else b"\0%d:1" % score
                taken.add(key)
                put = space.delay if place in ("delayed", "due") else space.lease
                put(key, body, score)
                if place == "no body":
                    body = b""
                    space.client.hdel(space.key("CONTEXT"), key)
            case "dead":
                space.die(text_of_key(b"", body), body)
            case _:
                lists.setdefault(place, []).append(body)
        expected.append((text_of_key(key, body), STATES[place], body))
    for place, texts in lists.items():
        match place:
            case "ready":
                space.push(*texts)
            case "handoff":
                space.hand_over(*texts)
            case "claimed":
                space.hold(*texts, suffix="CLAIM:g:2")
            case "claim ended":
                space.hold(*texts, until=PAST, suffix="CLAIM:g:1")
            case "row":
                stage(space, texts, "STAGED:w:1:0")
            case "later row":
                stage(space, [b"%d:%s" % (FUTURE, each) for each in texts], "STAGED:w:1:0:delayed")
    return expected


def stage(space: Space, texts: list[bytes], suffix: str) -> None:
    space.client.lpush(space.key(suffix), *texts)
    space.client.zadd(space.key("HELD"), {space.key(suffix): 0})
    space.client.hset(space.key("HELDROWS"), space.key(suffix), len(texts))


def has(body: bytes, where: dict[str, Any]) -> bool:
    """Return whether a body has these fields, by the standard library's reading of JSON."""
    try:
        fields = json.loads(body)
    except ValueError:
        return False
    for path, wanted in where.items():
        value = fields
        for name in path.split("."):
            if not isinstance(value, dict) or name not in value:
                return False
            value = value[name]
        if value != wanted or isinstance(value, bool) != isinstance(wanted, bool):
            return False
    return True


@pytest.mark.parametrize("end", ["right", "left"])
def test_every_message_is_found_where_it_is(
    plain_client: redis.Redis, name: str, end: PopFrom
) -> None:
    @settings(
        max_examples=12,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(messages)
    def run(held: list[tuple[str, bytes]]) -> None:
        for key in plain_client.scan_iter(f"{name}*", 1000):
            plain_client.delete(key)
        space = Space(plain_client, name, scripts.directory())
        if end == "left":
            space = space.popped_from_the_left()
        expected = fill(space, held)
        with Queue(plain_client, name, pop_from=end) as queue:
            check(queue, expected)

    run()


def check(queue: Queue, expected: list[tuple[str, str, bytes]]) -> None:
    positions = {}

    def look(found: Iterable[Any]) -> Counter[tuple[str, str, bytes]]:
        found = list(found)
        positions.update({each.position: each.body for each in found if each.state == "ready"})
        return Counter((each.id, each.state, each.body) for each in found)

    for wanted in {id for id, _, _ in expected if id} | {"a", "1"}:
        alike = Counter(each for each in expected if each[0] == wanted)
        assert look(queue.find_all(wanted, within=None)) == alike
        assert look(queue.find_all(wanted)) == alike
        assert (queue.find(wanted) is None) == (not alike)
    for where in WHERE:
        alike = Counter(each for each in expected if has(each[2], where))
        assert look(queue.search(where)) == alike
        assert len(queue.search(where, limit=1)) == min(1, alike.total())
    ready = [message.body for message in queue.pop_many(100)]
    while more := queue.pop_many(100):
        ready += [message.body for message in more]
    assert len(ready) == sum(state == "ready" for _, state, _ in expected)
    assert positions == {at: ready[at] for at in positions}


def test_a_search_reads_more_notes_of_canceled_messages_than_one_call(
    plain_client: redis.Redis, name: str
) -> None:
    with Queue(plain_client, name) as queue:
        queue.push_many([{"id": f"m{n}", "of": 1} for n in range(cancel_notes.READ + 1)])
        last = queue.peek(1, skip=cancel_notes.READ)[0]
        now = plain_client.time()[0] * 1_000_000
        plain_client.hset(f"{name}NOTES", listed_field(last.id, last.body), f"{now} 0 1")
        matches = queue.search({"of": 1}, limit=cancel_notes.READ + 1)
        assert [match.id for match in matches if match.canceled] == [last.id]
        queue.purge()
