"""find, find_all and search: where the messages of a delay queue are, on every server."""

from collections.abc import Iterator
from typing import Any

import pytest

from ackq.delay import DelayEntry, DelayQueue, peek
from ackq.errors import ConfigurationError, InvalidMessage
from tests.delay.conftest import MakeDelay
from tests.servers import Target

#: Keys beside each other in the order of bytes, and at its ends.
KEYS = ("\0", "a", "a\0", "a\0\0", "a\x01", "b", "ä", b"\xff".decode(errors="surrogateescape"))


@pytest.mark.parametrize("partitions", [None, 3])
def test_a_message_is_found_wherever_it_is(make_delay: MakeDelay, partitions: int | None) -> None:
    queue: Any = make_delay(partitions, visibility_timeout=60)
    assert queue.find("a") is None
    queue.push("a", b"body", delay=600)
    found = queue.find("a")
    assert (found.state, found.body, found.receive_count) == ("delayed", b"body", 0)
    assert 590 < found.due_in <= 600
    assert queue.reschedule("a", delay=0)
    assert (queue.find("a").state, queue.find("a").position) == ("ready", 0)
    (message,) = queue.take(1, timeout=5)
    found = queue.find("a")
    assert (found.state, found.position, found.receive_count) == ("in_flight", None, 1)
    assert 55 < found.lease_ends_in <= 60.1
    assert found.queue == (f"{queue.name}:{message.partition}" if partitions else queue.name)
    queue.nack(message, delay=600, error=ValueError("why"))
    found = queue.find("a")
    assert (found.state, found.receive_count, found.errors[0].type) == ("delayed", 1, "ValueError")
    queue.reschedule("a", delay=0)
    queue.reject(*queue.take(1, timeout=5), reason="no good")
    queue.push("a", b"another")
    found = queue.find_all("a")
    assert [(each.state, each.body, each.reason) for each in found] == [
        ("ready", b"another", ""),
        ("dead", b"body", "no good"),
    ]
    assert queue.find("b") is None
    if partitions:
        queue.push("c", b"", partition=2)
        found = [each for part in range(3) for each in queue.find_all("c", partition=part)]
        assert [each.queue for each in found] == [f"{queue.name}:2"]


def test_every_key_is_found_among_messages_of_the_same_time(
    delay: DelayQueue, target: Target, name: str
) -> None:
    raw = {key: key.encode(errors="surrogateescape") for key in KEYS}
    delay.push_many(DelayEntry(key, raw[key]) for key in KEYS)
    target.control.zadd(f"{name}:z", dict.fromkeys(raw.values(), 1.5))
    found = [delay.find(key) for key in KEYS]
    assert [each and each.id for each in found] == list(KEYS)
    assert [each and each.position for each in found] == list(range(len(KEYS)))
    assert [each.id for each in delay.peek(20)] == list(KEYS)
    assert delay.find("a\x02") is None
    # A lease that has ended counts as ready; a body that is gone, as empty.
    taken = delay.take(2, timeout=5)
    target.control.zadd(f"{name}:leases", {taken[0].key.encode(): 1})
    target.control.zadd(f"{name}:z", {taken[0].key.encode(): 0.000001})
    ended = delay.find(taken[0].key)
    assert ended is not None
    assert (ended.state, ended.position) == ("ready", 0)
    target.control.hdel(f"{name}:h", "b")
    without = delay.find("b")
    assert without is not None
    assert (without.state, without.body) == ("ready", b"")


def test_a_search_compares_fields_in_every_state(make_delay: MakeDelay) -> None:
    queue = make_delay(2, visibility_timeout=60)
    looked: list[int] = []

    def ids(where: dict[str, Any], **settings: Any) -> Iterator[tuple[str, str]]:
        return ((each.id, each.state) for each in queue.search(where, **settings))

    queue.push("dead", {"customer": 17})
    queue.reject(*queue.take(1, timeout=5))
    queue.push("held", {"customer": 17})
    queue.take(1, timeout=5)
    queue.push("later", {"customer": 17, "of": {"kind": "x"}}, delay=600)
    queue.push_many(DelayEntry(f"r{n}", {"customer": n}) for n in range(16, 19))
    queue.push("text", b"customer 17")
    assert sorted(ids({"customer": 17}, on_progress=looked.append)) == [
        ("dead", "dead"),
        ("held", "in_flight"),
        ("later", "delayed"),
        ("r17", "ready"),
    ]
    assert sum(looked) == 7
    assert list(ids({"of.kind": "x"})) == [("later", "delayed")]
    assert len(list(ids({"customer": 17}, limit=2))) == 2
    assert list(ids({"customer": "17"}, within=None)) == []
    assert queue.find("dead", within=1) is not None


def test_how_far_is_searched(delay: DelayQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peek, "PAGE", 7)
    delay.push_many(DelayEntry(f"m{n:02}", {"n": n, "same": 1}, at=n + 1) for n in range(30))
    delay.reject(*delay.take(4, timeout=5))
    assert [each.id for each in delay.search({"same": 1}, within=2)] == ["m04", "m05", "m03", "m02"]
    assert [each.position for each in delay.search({"n": 20})] == [16]
    assert len(delay.search({"same": 1}, limit=28)) == 28
    assert delay.find("m00", within=3) is None
    assert delay.find("m00") == delay.find("m00", within=4)


def test_what_cannot_be_found_is_refused(make_delay: MakeDelay) -> None:
    queue = make_delay(3)
    for wrong in ("", "x" * 513):
        with pytest.raises(InvalidMessage):
            queue.find(wrong)
    with pytest.raises(ConfigurationError):
        queue.find("a", within=0)
    with pytest.raises(ConfigurationError):
        queue.find("a", partition=3)
    with pytest.raises(ConfigurationError):
        queue.search({})
