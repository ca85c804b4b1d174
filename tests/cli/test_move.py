"""Moving and copying: nothing is lost, whatever breaks in between."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from redis.exceptions import OutOfMemoryError

from ackq import Message, Queue
from ackq.errors import AckqError, ConfigurationError, LeaseLost
from ackq.ops.move import CHUNK, _pass_on, copy, move
from tests.cli.conftest import Run
from tests.servers import private_server

N = 2 * CHUNK + 7


@pytest.fixture
def pair(plain_client: redis.Redis, name: str) -> Iterator[tuple[Queue, Queue]]:
    """A queue with messages, and an empty one."""
    with Queue(plain_client, name) as source, Queue(plain_client, f"{name}-to") as target:
        source.push_many([b'{"id":%d}' % number for number in range(N)])
        yield source, target


def bodies(queue: Queue) -> list[bytes]:
    return [each.body for each in queue.peek(10 * N)]


def test_messages_arrive_in_order_byte_for_byte(pair: tuple[Queue, Queue]) -> None:
    source, target = pair
    before = bodies(source)
    steps: list[int] = []
    assert move(source, target, on_step=steps.append) == N
    assert steps == [CHUNK, 2 * CHUNK, N]
    assert bodies(target) == before
    now = source.stats()
    assert (now.ready, now.in_flight) == (0, 0)


def test_a_number_of_messages_can_be_moved(pair: tuple[Queue, Queue]) -> None:
    source, target = pair
    assert move(source, target, 3) == 3
    assert (source.stats().ready, target.stats().ready) == (N - 3, 3)


def test_a_copy_leaves_the_source_as_it_is(pair: tuple[Queue, Queue]) -> None:
    source, target = pair
    assert copy(source, target, CHUNK + 1) == CHUNK + 1
    assert copy(source, target, skip=CHUNK + 1) == N - CHUNK - 1
    assert bodies(target) == bodies(source)
    assert source.stats().ready == N


class Breaking(Exception):
    """What breaks a move."""


def test_what_could_not_be_pushed_is_given_back_at_once(
    pair: tuple[Queue, Queue], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pair
    push_many = target.push_many

    def break_at_the_second(messages: Any) -> list[str]:
        if target.stats().ready:
            raise Breaking
        return push_many(messages)

    with monkeypatch.context() as patch:
        patch.setattr(target, "push_many", break_at_the_second)
        with pytest.raises(Breaking):
            move(source, target)
    assert (source.stats().ready, target.stats().ready) == (N - CHUNK, CHUNK)
    assert move(source, target) == N - CHUNK
    assert sorted(bodies(target)) == sorted(b'{"id":%d}' % number for number in range(N))


def test_a_crash_before_the_ack_leaves_a_step_in_both_and_loses_none(
    pair: tuple[Queue, Queue], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pair

    def crash(*_: Any) -> int:
        raise Breaking

    with monkeypatch.context() as patch:
        patch.setattr(source, "ack", crash)
        with pytest.raises(Breaking):
            move(source, target)
    assert target.stats().ready == CHUNK
    assert source.stats().in_flight == CHUNK
    source.drain()
    assert move(source, target) == N
    arrived = bodies(target)
    assert set(arrived) == {b'{"id":%d}' % number for number in range(N)}
    assert len(arrived) == N + CHUNK


def test_a_queue_is_not_moved_onto_itself(plain_client: redis.Redis, name: str) -> None:
    with Queue(plain_client, name) as one, Queue(plain_client, name) as same:
        for each in (move, copy):
            with pytest.raises(ConfigurationError, match="both source and destination"):
                each(one, same)


# --- the command ------------------------------------------------------------------


def test_the_command_moves_to_another_server(
    ackq: Run, pair: tuple[Queue, Queue], tmp_path: Path
) -> None:
    source, _ = pair
    source.push({"id": "later"}, delay=600)
    with private_server(tmp_path) as server:
        result = ackq("move", source.name, "arrived", "--to", server.url)
        assert result.stdout == f"{N}\n"
        assert "0 ready, 0 in flight, 1 delayed, 0 dead" in result.stderr
        with Queue.from_url(server.url, "arrived") as arrived:
            assert arrived.stats().ready == N


def test_the_command_says_how_far_it_came(
    ackq: Run, pair: tuple[Queue, Queue], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pair
    push_many = Queue.push_many
    calls = iter((True, False))

    def fail_at_the_second(queue: Queue, messages: Any, **settings: Any) -> list[str]:
        if next(calls):
            return push_many(queue, messages, **settings)
        raise AckqError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Queue, "push_many", fail_at_the_second)
        result = ackq("move", source.name, target.name, "--copy", code=3)
    assert f"{CHUNK} copied; go on with --skip {CHUNK}" in result.stderr
    ackq("move", source.name, target.name, "--copy", "--skip", str(CHUNK))
    assert bodies(target) == bodies(source)


def test_a_copy_says_what_it_left_out(ackq: Run, pair: tuple[Queue, Queue]) -> None:
    source, target = pair
    assert ackq("move", source.name, target.name, "--copy").stderr == ""
    source.reject(*source.pop_many(1))
    source.pop_many(2)
    source.push({"id": "later"}, delay=600)
    result = ackq("move", source.name, target.name, "--copy", "-n", "3")
    assert result.stdout == "3\n"
    left_out = "2 in flight, 1 delayed, 1 dead"
    assert result.stderr == f"ackq: not copied from {source.name}: {left_out}\n"


def test_a_paused_queue_is_said_to_be_paused(ackq: Run, pair: tuple[Queue, Queue]) -> None:
    source, target = pair
    source.pause()
    result = ackq("move", source.name, target.name)
    assert result.stdout == "0\n"
    assert "the queue is paused" in result.stderr


@pytest.mark.parametrize("error", [redis.ConnectionError("away"), LeaseLost("it ended")])
def test_a_move_fails_with_its_own_error_and_a_late_one_is_none(error: Exception) -> None:
    def fail(*messages: Message) -> None:
        raise error

    def full(bodies: list[bytes]) -> None:
        raise OutOfMemoryError

    messages = [Message("jobs", b"a", b"{}", 1, 1)]
    source: Any = SimpleNamespace(release=fail, ack=fail)
    with pytest.raises(OutOfMemoryError):
        _pass_on(source, SimpleNamespace(push_many=full), messages)
    kept: Any = SimpleNamespace(push_many=lambda bodies: None)
    if isinstance(error, LeaseLost):
        _pass_on(source, kept, messages)
    else:
        with pytest.raises(redis.ConnectionError):
            _pass_on(source, kept, messages)
