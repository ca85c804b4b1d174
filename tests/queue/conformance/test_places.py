"""find, find_all and search: where messages are, on every server and through both faces."""

from collections.abc import Callable
from typing import Any

import pytest

from ackq import ConfigurationError
from ackq.core.search_terms import WITHIN
from ackq.queue import places
from tests.queue.scripts.space import listed_field
from tests.servers.target import Target


def test_a_message_is_found_wherever_it_is(make_queue: Any) -> None:
    queue = make_queue(max_receives=5)
    queue.push_many({"id": f"m-{n}"} for n in range(40))
    found = queue.find("m-30")
    assert (found.state, found.position, found.body) == ("ready", 30, b'{"id":"m-30"}')
    taken = queue.pop(visibility_timeout=60)
    found = queue.find("m-0")
    assert (found.state, found.position, found.receive_count) == ("in_flight", None, 1)
    assert 59 < found.lease_ends_in <= 60.1
    queue.nack(taken, delay=600, error=ValueError("why"))
    found = queue.find("m-0")
    assert (found.state, found.errors[-1].type) == ("delayed", "ValueError")
    assert 590 < found.due_in <= 600
    assert queue.cancel(found.entry) == 1
    found = queue.find("m-0")
    assert (found.state, found.reason, found.receive_count) == ("dead", "canceled", 1)
    assert queue.redrive(entries=[found.entry]) == 1
    assert queue.find("m-0").state == "ready"
    assert queue.find("m-40") is None


def test_a_message_is_found_after_its_ack_nowhere(queue: Any) -> None:
    queue.push({"id": 17})
    assert queue.find(17) == queue.find("17")
    queue.ack(queue.pop())
    assert queue.find(17, within=None) is None


def test_position_counts_what_pop_delivers_first(queue: Any) -> None:
    queue.push_many({"id": f"m-{n}"} for n in range(4))
    queue.nack(queue.pop(), delay=0)
    queue.pop(visibility_timeout=60)
    order = [(queue.find(f"m-{n}").position, f"m-{n}") for n in (0, 1, 2, 3) if n != 0]
    waiting = sorted((at, name) for at, name in order if at is not None)
    delivered = [message.id for message in queue.pop_many(10)]
    assert [name for _, name in waiting] == [each for each in delivered if each != "m-0"]


def test_all_messages_with_an_id_are_found(queue: Any) -> None:
    for _ in range(4):
        queue.push({"id": "same"})
    queue.reject(queue.pop())
    queue.pop(visibility_timeout=60)
    queue.pop(visibility_timeout=60)
    states = [each.state for each in queue.find_all("same")]
    assert sorted(states) == ["dead", "in_flight", "in_flight", "ready"]
    assert queue.find("same").state == "in_flight"
    assert queue.find_all("other") == []


def test_a_message_without_an_id_is_found_by_the_name_that_it_gets(queue: Any) -> None:
    queue.push(b"no JSON")
    message = queue.pop(visibility_timeout=60)
    assert queue.find(message.id).state == "in_flight"
    queue.nack(message, delay=60)
    assert queue.find(message.id).state == "delayed"
    assert queue.cancel(queue.find(message.id).entry) == 1
    assert queue.find(message.id).state == "dead"


def test_a_message_is_found_if_its_body_is_missing(queue: Any, target: Target, name: str) -> None:
    queue.push({"id": "a"})
    queue.pop(visibility_timeout=60)
    target.control.hdel(f"{name}CONTEXT", "a")
    found = queue.find("a")
    assert (found.state, found.body) == ("in_flight", b"")


def test_what_other_programs_wrote_is_no_obstacle(
    queue: Any, target: Target, name: str, pop_from: str
) -> None:
    if pop_from == "left":
        queue.pop()
    rows = f"{name}STAGED:w:1:0:delayed"
    target.control.lpush(rows, '{"id":"no time"}', 'x:{"id":"b"}', '1:{"id":"past"}')
    target.control.zadd(f"{name}HELD", {rows: 0})
    target.control.hset(f"{name}HELDROWS", rows, 3)
    target.control.xadd(f"{name}DEAD", {"count": "many", "body": '{"id":"dead"}'})
    assert (queue.find("no time").due_in, queue.find("past").due_in) == (0, 0)
    assert (queue.find("dead").state, queue.find("dead").receive_count) == ("dead", 0)


def test_what_is_canceled_deep_in_the_list_is_what_pop_makes_dead(
    queue: Any, target: Target, name: str
) -> None:
    bodies = [
        b'{"id":"a"}',
        b'{"id":"a","n":2}',
        b'{"id":"a"}',
        b'{"id":"b"}',
        b"no id",
        b'{"id":"a"}',
    ]
    queue.push_many(bodies)
    now = target.control.time()[0] * 1_000_000
    day, others = 86_400_000_000, [body for body in bodies if b'"a"' not in body]
    notes: dict[Any, str] = {
        "": f"{now - 5 * day}",
        listed_field("a", bodies[0]): f"{now - 4 * day} 0 2",
        listed_field("a", bodies[1]): f"{now - 8 * day} 0 9",
        listed_field("b", others[0]): "no note",
    }
    target.control.hset(f"{name}NOTES", mapping=notes)
    found = [(each.position, each.canceled) for each in queue.find_all("a")]
    assert found == [(0, True), (1, False), (2, True), (5, False)]
    assert [queue.find(each).canceled for each in "ab"] == [True, False]
    peeked = [(each.body, each.canceled) for each in queue.peek(6)]
    assert peeked == [(body, at in (0, 2)) for at, body in enumerate(bodies)]
    assert [message.body for message in queue.pop_many(10)] == [bodies[at] for at in (1, 3, 4, 5)]
    assert [letter.body for letter in queue.dead_letters()] == [bodies[0]] * 2


def test_an_id_in_another_field_or_inside_another_id_is_not_found(queue: Any) -> None:
    queue.push({"id": "a-10", "of": "a-1"})
    assert queue.find("a-1") is None
    assert queue.find_all("a-1") == []


@pytest.mark.parametrize(
    "body", ['{"n":1,"id":"ä/b"}', '{"n":1,"id":"\\u00e4\\/b"}', '{"id": "\\u00E4/b"}']
)
def test_an_id_is_found_however_json_writes_it(
    queue: Any, push_plainly: Callable[..., Any], body: str
) -> None:
    push_plainly(body)
    assert queue.find("ä/b").body == body.encode()


def test_within_bounds_how_many_messages_are_searched(queue: Any) -> None:
    queue.push_many({"id": f"m-{n}"} for n in range(30))
    assert queue.find("m-9", within=10).position == 9
    assert queue.find("m-10", within=10) is None
    assert queue.find("m-29", within=None).position == 29


def test_a_search_compares_fields(queue: Any) -> None:
    queue.push_many(
        [
            {"id": "a", "customer": 17, "of": {"kind": "x/y"}, "paid": True},
            {"id": "b", "customer": "17", "of": {"kind": None}, "paid": 1},
            {"id": "c", "customer": 117, "rate": 1.5, "name": "müller"},
        ]
    )
    queue.push(b"no JSON, but customer 17")
    queue.push({"id": "later", "customer": 17}, delay=60)

    def ids(where: dict[str, Any], **settings: Any) -> list[str]:
        return [each.id for each in queue.search(where, **settings)]

    assert ids({"customer": 17}) == ["a", "later"]
    assert ids({"customer": "17"}) == ["b"]
    assert ids({"of.kind": "x/y"}) == ["a"]
    assert ids({"of.kind": None}) == ["b"]
    assert ids({"paid": True}) == ["a"]
    assert ids({"rate": 1.5, "name": "müller"}) == ["c"]
    assert ids({"customer": 17}, limit=1) == ["a"]
    assert ids({"customer": 18}) == ids({"of": 17}) == ids({"customer.x": 17}) == []
    assert ids({"customer": 2**70}) == []  # larger than the integers that orjson writes


@pytest.mark.parametrize("within", [WITHIN, None])
def test_a_search_reports_how_many_messages_it_looked_at(
    make_queue: Any, monkeypatch: pytest.MonkeyPatch, within: int | None
) -> None:
    monkeypatch.setattr(places, "WITHIN", 7)  # a search of all begins with these
    queue = make_queue()
    queue.push_many({"id": n, "n": n} for n in range(50))
    queue.pop_many(10, visibility_timeout=60)
    queue.reject(queue.pop())
    looked: list[int] = []
    queue.search({"n": -1}, within=within, on_progress=looked.append)
    assert sum(looked) == 50


@pytest.mark.refused_by_the_client
def test_what_cannot_be_searched_for_is_refused(queue: Any) -> None:
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: queue.find(""), "'' is not the id of a message"),
        (lambda: queue.find(None), "None is not the id"),
        (lambda: queue.find("a", within=0), "within"),
        (lambda: queue.search({}), "1 to 4 fields"),
        (lambda: queue.search({"": 1}), "named by text"),
        (lambda: queue.search({"a": [1]}), "not with \\[1\\]"),
        (lambda: queue.search({"a": "x" * 5000}), "longer than 4096"),
        (lambda: queue.search({"a": "\ud800"}), "not valid Unicode"),
        (lambda: queue.search({"\ud800": 1}), "not valid Unicode"),
        (lambda: queue.search({"a": 1}, limit=0), "limit"),
    ]
    for call, text in calls:
        with pytest.raises(ConfigurationError, match=text):
            call()


@pytest.mark.parametrize("where", ["delayed", "retry", "in_flight"])
@pytest.mark.parametrize("verb", ["cancel", "run_now"])
def test_cancel_and_run_now_find_what_find_finds(queue: Any, verb: str, where: str) -> None:
    """All messages of an id, those under derived keys, too: the first one has the id as its key."""
    queue.push_many(
        [{"id": "a", "n": n} for n in range(3)], delay=100 if where == "delayed" else None
    )
    queue.push({"id": "b"}, delay=100)
    if where != "delayed":
        taken = queue.pop_many(3)
        if where == "retry":
            queue.nack(*taken, delay=100)
    states = ["in_flight" if where == "in_flight" else "delayed"] * 3
    assert [each.state for each in queue.find_all("a")] == states
    if verb == "cancel":
        running = where == "in_flight"
        assert queue.cancel(ids=["a"]) == (0 if running else 3)
        assert queue.cancel(ids=["a"], running=True) == (3 if running else 0)
        assert {each.state for each in queue.find_all("a")} == {"dead"}
    else:
        assert queue.run_now(ids=["a"]) == (0 if where == "in_flight" else 3)
        assert (
            sorted(each.json()["n"] for each in queue.pop_many(9))
            == [0, 1, 2][: 3 * (where != "in_flight")]
        )
    assert queue.stats().delayed == 1
