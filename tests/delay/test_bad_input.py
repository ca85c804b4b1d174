"""Whatever bytes others store, and whatever a caller passes: nothing is lost or wedged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.exceptions import ResponseError

from ackq import scripts
from ackq.delay import DelayedMessage, DelayQueue
from ackq.errors import KeyTypeError
from tests.delay.article import Article
from tests.queue.test_bad_bodies import CORPUS

Make = Callable[..., DelayQueue]


@pytest.fixture
def queue(plain_client: redis.Redis, name: str) -> DelayQueue:
    return DelayQueue(plain_client, name, max_receives=2, max_body_bytes=8 * 1024 * 1024)


def test_every_bad_body_lives_through_every_way_a_message_travels(
    queue: DelayQueue, plain_client: redis.Redis, name: str
) -> None:
    article = Article(plain_client, name)
    bodies = {f"{number}": body for number, body in enumerate(CORPUS)}
    for number, (key, body) in enumerate(bodies.items()):
        if number % 2:
            queue.push(key, body)
        else:
            article.push(key, body, 1)
    for verb in ("release", "nack", "reject", "delete"):
        taken: dict[str, DelayedMessage] = {}
        while batch := queue.take(50):
            taken |= {message.key: message for message in batch}
        assert {key: message.body for key, message in taken.items()} == bodies
        # Nacked at once they would be taken again by the loop that counts them.
        for message in taken.values():
            settle = getattr(queue, verb)
            assert (settle(message, delay=0) if verb == "nack" else settle(message)) == 1
        if verb == "reject":
            assert {letter.id: letter.body for letter in queue.dead_letters(1000)} == bodies
            assert queue.redrive() == len(bodies)
    assert queue.stats() == type(queue.stats())(0, 0, 0, 0, None)
    queue.close()


@settings(max_examples=60, suppress_health_check=list(HealthCheck), database=None)
@given(
    stored=st.dictionaries(st.binary(max_size=40), st.binary(max_size=60), min_size=1, max_size=8),
    score=st.floats(allow_nan=False, max_value=1.7e9),
)
def test_any_key_and_body_of_others_is_taken_settled_and_deleted(
    plain_client: redis.Redis, name: str, stored: dict[bytes, bytes], score: float
) -> None:
    queue = DelayQueue(plain_client, name)
    plain_client.hset(f"{name}:h", mapping=stored)  # type: ignore[arg-type]
    plain_client.zadd(f"{name}:z", dict.fromkeys(stored, score))
    taken = queue.take(9)
    found = {each.key.encode(errors="surrogateescape"): each.body for each in taken}
    assert found == stored
    assert queue.extend(*taken) == queue.nack(*taken, delay=0) == len(stored)
    assert queue.delete(*queue.take(9)) == len(stored)
    assert not plain_client.exists(f"{name}:z", f"{name}:h", f"{name}:leases")
    queue.close()


@pytest.mark.parametrize(
    "value", ["", "x", "1e30", "nan", "-1", "1.5", "9" * 400, "9" * 5000], ids=lambda each: each[:5]
)
def test_what_is_no_number_in_a_dead_letter_of_others_is_0(
    queue: DelayQueue, plain_client: redis.Redis, name: str, value: str
) -> None:
    plain_client.xadd(f"{name}:dead", {"key": "k", "body": "b", "count": value, "time": value})
    (letter,) = queue.dead_letters()
    assert (letter.id, letter.body, letter.receive_count, letter.died_at) == ("k", b"b", 0, 0)
    assert queue.redrive() == 1
    queue.close()


def test_dead_letters_of_another_type_are_named(
    queue: DelayQueue, plain_client: redis.Redis, name: str
) -> None:
    plain_client.set(f"{name}:dead", "a string")
    for look in (queue.dead_letters, queue.redrive):
        with pytest.raises(KeyTypeError, match=f"{name}:dead"):
            look()
    queue.close()


HUGE = str(2**53)
#: The keys of a partition.
PARTS = ("z", "h", "leases", "extended", "receives", "dead", "wake", "errors", "counters")
#: A call that is right in everything, and what makes it wrong: position and value.
CALLS: dict[str, tuple[int, list[Any], list[tuple[int, Any]]]] = {
    "push": (
        9,
        [1, "delay", 0, "k", "b"],
        [
            (0, 0),
            (0, 2),
            (0, "x"),
            (1, "now"),
            (2, -1),
            (2, 1.5),
            (2, "nan"),
            (2, "inf"),
            (2, 8589934591000001),
            (3, ""),
        ],
    ),
    "take": (
        11,
        ["", 0, 1, 1, 0, 0],
        [
            (1, -1),
            (1, "x"),
            (2, 0),
            (2, 1001),
            (2, "nan"),
            (3, 0),
            (3, 43200000001),
            (3, "nan"),
            (3, 1.5),
            (4, -1),
            (4, 65536),
            (5, -1),
            (5, 1000001),
        ],
    ),
    "delete": (
        11,
        ["", 1, 1, 1, "k"],
        [(1, 0), (1, 2), (1, "x"), (2, -1), (2, HUGE), (2, "nan"), (3, 0), (3, 2), (3, 4001)],
    ),
    "nack": (
        11,
        ["", 1, 0, 1, 1, 0, 1, "k", "errors", 1, "{}"],
        [
            (1, 2),
            (1, "x"),
            (2, -1),
            (3, 2),
            (4, "nan"),
            (5, -1),
            (5, "nan"),
            (5, 3153600000000001),
            (6, 0),
            (6, 7),
            (8, "causes"),
            (9, 0),
            (9, 2),
            (9, "nan"),
            (10, "x" * 8193),
            (10, "two\nlines"),
        ],
    ),
    "reject": (
        11,
        ["", "why", 1, 1, 1, "k", "errors", 1, "{}"],
        [
            (1, "x" * 1025),
            (2, 2),
            (3, "nan"),
            (4, 7),
            (6, "causes"),
            (7, 0),
            (7, 2),
            (8, "x" * 8193),
            (8, "two\nlines"),
        ],
    ),
    "extend": (
        11,
        ["", 1, 0, 1, 1, 1, "k"],
        [(1, 0), (1, "nan"), (1, 43200000001), (2, 65536), (3, 2), (4, "x"), (5, 2)],
    ),
    "cancel": (9, [0, 1, "k"], [(0, 2), (1, 0), (1, 2), (1, "x")]),
    "reschedule": (9, ["k", "at", 1], [(1, "now"), (2, -1), (2, "nan"), (2, 8589934591000001)]),
    "redrive": (9, [1, ""], [(0, 0), (0, 1001), (0, "nan")]),
    "peek": (
        9,
        ["ready", "", "", 1],
        [(0, "dead"), (1, "nan"), (1, "x"), (1, " "), (3, 0), (3, 1001), (3, 1.5), (3, "nan")],
    ),
    "purge": (9, [0], [(0, 2), (0, "")]),
    "drop": (9, ["1-1"], [(0, "no entry")]),
    "watch": (9, [10_000], [(0, 0), (0, 1.5), (0, "nan"), (0, 604800001)]),
}
WRONG = [
    pytest.param(script, place, value, id=f"{script}-{place}-{value!s:.12}")
    for script, (_, _, wrong) in CALLS.items()
    for place, value in wrong
]


def call(client: Any, script: str, name: str, args: list[Any]) -> Any:
    keys = [f"{name}:{part}" for part in PARTS]
    if CALLS[script][0] == 11:
        keys = [f"{name}:members", f"{name}:group", *keys]
    return client.eval(scripts.load(f"delay/{script}").text, len(keys), *keys, *args)


@pytest.mark.parametrize(("script", "place", "value"), WRONG)
def test_a_bad_argument_is_refused_before_anything_is_written(
    plain_client: redis.Redis, name: str, script: str, place: int, value: Any
) -> None:
    args = [*CALLS[script][1]]
    args[place] = value
    with pytest.raises(ResponseError, match=f"ACKQ_ARGUMENT delay/{script}"):
        call(plain_client, script, name, args)
    assert not list(plain_client.scan_iter(f"{name}*"))


@pytest.mark.parametrize("script", CALLS)
def test_a_good_call_is_accepted_and_missing_arguments_are_refused(
    plain_client: redis.Redis, name: str, script: str
) -> None:
    args = CALLS[script][1]
    call(plain_client, script, name, args)
    with pytest.raises(ResponseError, match="ACKQ_ARGUMENT"):
        call(plain_client, script, name, args[:-1])


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("script", [each for each in CALLS if each != "redrive"])
def test_a_key_of_another_type_stops_a_script_before_its_first_write(
    plain_client: redis.Redis, name: str, script: str, part: str
) -> None:
    queue = DelayQueue(plain_client, name)
    queue.push("k", "x")
    queue.push("ready", "x")
    queue.take()
    for each in list(plain_client.scan_iter(f"{name}:{part}")):
        plain_client.unlink(each)
    plain_client.set(f"{name}:{part}", "a string")
    before = {key: plain_client.dump(key) for key in plain_client.scan_iter(f"{name}*")}
    try:
        call(plain_client, script, name, CALLS[script][1])
    except ResponseError as error:
        problem = str(error)
    else:
        problem = ""  # it does not touch that key in this state
    after = {key: plain_client.dump(key) for key in plain_client.scan_iter(f"{name}*")}
    queue.close()
    if problem:
        assert "WRONGTYPE" in problem
        assert after == before
