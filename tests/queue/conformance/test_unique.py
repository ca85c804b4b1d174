"""Unique pushes, on every server and through both faces."""

from typing import Any

import pytest

import ackq
from ackq.core.effects import Operation, Request
from ackq.queue.spec import QueueSpec
from tests.conftest import MakeQueue


def test_an_id_is_stored_again_when_its_message_is_done(queue: Any) -> None:
    first = queue.push({"id": "a"}, unique="done")
    assert (first, first.stored) == ("a", True)
    assert queue.push({"id": "a"}, unique="done").stored is False
    message = queue.pop()
    assert not queue.push({"id": "a"}, unique="done", front=True).stored
    queue.ack(message)
    assert queue.push({"id": "a"}, unique="done", delay=60).stored
    assert not queue.push({"id": "a"}, unique="done").stored
    assert queue.cancel(ids=["a"]) == 1
    assert queue.push({"id": "a"}, unique="done").stored
    assert queue.audit().findings == ()


def test_with_taken_an_id_is_stored_again_when_its_message_was_taken(queue: Any) -> None:
    for _ in range(3):
        assert queue.push({"id": "a"}, unique="taken").stored
        assert not queue.push({"id": "a"}, unique="taken").stored
        queue.pop()
    assert queue.stats().in_flight == 3
    assert queue.audit().findings == ()


def test_messages_of_one_push_are_unique_too(queue: Any) -> None:
    messages = [{"customer": n % 3, "kind": "sync"} for n in range(600)]
    pushed = queue.push_many(messages, unique="done", unique_by=["customer", "kind"])
    assert [each.stored for each in pushed] == [True] * 3 + [False] * 597
    assert pushed[1] == "customer=1&kind=sync"
    assert [message.id for message in queue.pop_many(9)] == pushed[:3]


def test_a_delayed_message_is_replaced(queue: Any) -> None:
    for n in range(3):
        queue.push({"id": "a", "n": n}, unique="done", delay=60 + n, replace=True)
    (later,) = queue.peek(9, "delayed")
    assert b'"n":2' in later.body
    assert queue.stats().delayed == 1


@pytest.mark.parametrize("charge", [False, True])
def test_a_message_is_replaced_unless_a_delivery_of_it_counts(queue: Any, charge: bool) -> None:
    queue.push({"id": "a", "n": 1}, unique="taken")
    (queue.nack if charge else queue.release)(queue.pop(), delay=60)
    again = queue.push({"id": "a", "n": 2}, unique="taken", delay=60, replace=True)
    assert again.stored is not charge
    assert [b'"n":2' in each.body for each in queue.peek(9, "delayed")] == [again.stored]


@pytest.mark.parametrize("pop_from", ["right", "left"])
def test_a_bare_pop_blocks_an_id_for_a_while_at_most(make_queue: MakeQueue, pop_from: Any) -> None:
    queue = make_queue(pop_from=pop_from)
    queue.push({"id": "a"}, unique="done", unique_for=0.000001)
    queue.push({"id": "b"})
    assert not queue.push({"id": "a"}, unique="done").stored  # a search finds it
    queue.execute(_bare_pop)
    assert not queue.push({"id": "a"}, unique="done").stored  # believed since the search
    queue.execute(_bare_pop)
    assert queue.push({"id": "a"}, unique="done", unique_for=0.000001).stored  # there are no lists
    queue.push({"id": "b"})
    queue.execute(_bare_pop)
    assert queue.push({"id": "a"}, unique="done").stored  # a search finds nothing
    assert [message.id for message in queue.pop_many(9)] == ["b", "a"]


def _bare_pop(spec: QueueSpec) -> Operation[None]:
    yield Request((b"LPOP" if spec.keys.pop_from == "left" else b"RPOP", spec.keys.ready))


def test_a_dead_letter_stays_while_its_id_is_queued(queue: Any) -> None:
    queue.push({"id": "a"}, unique="done")
    queue.reject(queue.pop())
    assert queue.push({"id": "a"}, unique="done").stored
    redriven = queue.redrive()
    assert (redriven, redriven.refused) == (0, (queue.dead_letters()[0].entry,))
    assert queue.redrive(force=True) == 1
    assert queue.stats().ready == 2
    queue.ack(queue.pop_many(2))
    assert queue.push({"id": "a"}, unique="done").stored
    assert queue.audit().findings == ()


@pytest.mark.parametrize(
    ("message", "options", "error"),
    [
        ({"n": 1}, {"unique": "done"}, "give it one"),
        (b"none", {"unique": "done"}, "have none"),
        ({"n": 1}, {"unique": "done", "unique_by": ["m"]}, "no field 'm'"),
        ({"n": 1, "id": "a"}, {"unique": "done", "unique_by": ["n"]}, "leave out"),
        ({"n": {1, 2}}, {"unique": "done", "unique_by": ["n"]}, "no JSON value"),
        (b'{"id":"a"}', {"unique": "done", "unique_by": ["n"]}, "mappings"),
        ({"id": "a"}, {"unique": "once"}, "once"),
        ({"id": "a"}, {"unique": "done", "dedup": "a"}, "not both"),
        ({"id": "a"}, {"unique": "done", "replace": True}, "delay or at"),
        ({"id": "a"}, {"unique": "done", "unique_by": "id"}, "unique_by is a sequence of text"),
        ({"id": "a"}, {"unique": "done", "unique_for": 0}, "unique_for"),
        ({"id": "a"}, {"unique_by": ["n"]}, "need unique"),
        ({"id": "a"}, {"replace": True}, "need unique"),
        ({"id": '"', "x": "x" * 70_000}, {"unique": "done"}, "in front"),
    ],
)
def test_what_cannot_be_unique_is_refused(
    queue: Any, message: Any, options: Any, error: str
) -> None:
    for push in (queue.push, lambda each, **more: queue.push_many([each], **more)):
        with pytest.raises((ackq.ConfigurationError, ackq.InvalidMessage), match=error):
            push(message, **options)
    assert queue.stats().ready == 0


def test_a_long_body_with_its_id_in_front_can_be_unique(queue: Any) -> None:
    for id in ("a", 7, "ключ"):
        body = {"id": id, "x": "x" * 70_000}
        assert queue.push(body, unique="done").stored
        assert not queue.push(body, unique="done").stored
        queue.ack(queue.pop())
        assert queue.push(body, unique="done").stored
        queue.purge()


def test_ids_by_fields_tell_values_apart(make_queue: MakeQueue) -> None:
    values = [
        17,
        "17",
        17.5,
        None,
        "null",
        True,
        "a b",
        ["a"],
        {"b": 1, "a": 2},
        "",
        '"',
        "x" * 600,
    ]
    pushed = [
        make_queue().push({"v": {"w": value}}, unique="done", unique_by=["v.w"]) for value in values
    ]
    assert len(set(pushed)) == len(values)
    assert pushed[:3] == ["v.w=17", "v.w=%2217%22", "v.w=17.5"]
    assert pushed[-1].startswith("sha256=")
