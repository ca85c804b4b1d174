"""Each behaviour of lists that redis-py's own tests check: the same here as there.

The calls run once with a plain client and once with the drop-in. Results are compared, and errors
by their class in redis-py.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import redis

from ackq import dropin

#: A function that calls one client, with the names of two lists.
Calls = Callable[[Any, str, str], list[Any]]

CASES: dict[str, Calls] = {
    "lpush returns the length": lambda r, a, b: [r.lpush(a, "1"), r.lpush(a, "2", b"3", 4, 5.5)],
    "rpush returns the length": lambda r, a, b: [r.rpush(a, "1"), r.rpush(a, "2", b"3", 4)],
    "pushes in both directions": lambda r, a, b: [r.lpush(a, 1), r.rpush(a, 2), r.lrange(a, 0, -1)],
    "lpushx and rpushx need a list": lambda r, a, b: [
        r.lpushx(a, 1),
        r.rpush(a, 2),
        r.lpushx(a, 1),
        r.rpushx(a, 3),
        r.lrange(a, 0, -1),
    ],
    "rpop": lambda r, a, b: [r.rpush(a, 1, 2), r.rpop(a), r.rpop(a), r.rpop(a)],
    "rpop with a count": lambda r, a, b: [
        r.rpush(a, 1, 2, 3),
        r.rpop(a, 2),
        r.rpop(a, count=5),
        r.rpop(a, 5),
        r.rpop(a, 0),
    ],
    "rpop of count 0": lambda r, a, b: [r.rpush(a, 1), r.rpop(a, 0), r.rpop(a, "0"), r.rpop(a)],
    "a count as text": lambda r, a, b: [r.rpush(a, 1, 2, 3), r.rpop(a, "2"), r.rpop(a, b"1")],
    "rpop of what was never a list": lambda r, a, b: [r.rpop(a), r.rpop(a, 1)],
    "lpop": lambda r, a, b: [r.rpush(a, 1, 2), r.lpop(a), r.lpop(a), r.lpop(a)],
    "lpop with a count": lambda r, a, b: [
        r.rpush(a, 1, 2, 3),
        r.lpop(a, 2),
        r.lpop(a, count=5),
        r.lpop(a, 5),
        r.lpop(a, 0),
    ],
    "brpop": lambda r, a, b: [r.rpush(a, 1, 2), r.brpop(a), r.brpop([a], 1), r.brpop(a, 0.05)],
    "brpop of several lists, in their order": lambda r, a, b: [
        r.rpush(a, 1, 2),
        r.rpush(b, 3, 4),
        *[r.brpop([b, a], 1) for _ in range(4)],
        r.brpop([b, a], 0.05),
    ],
    "brpop of a tuple, a set and a dict": lambda r, a, b: [
        r.rpush(a, 1, 2, 3),
        r.brpop((a,)),
        r.brpop({a}),
        r.brpop({a: 1}),
    ],
    "blpop": lambda r, a, b: [r.rpush(a, 1, 2), r.blpop(a), r.blpop([a], 1), r.blpop(a, 0.05)],
    "blpop of several lists, in their order": lambda r, a, b: [
        r.rpush(a, 1, 2),
        r.rpush(b, 3, 4),
        *[r.blpop([b, a], 1) for _ in range(4)],
        r.blpop([b, a], 0.05),
    ],
    "pops at both ends, the left one first": lambda r, a, b: [
        r.rpush(a, 1, 2, 3, 4),
        r.lpop(a),
        r.rpop(a),
        r.lpop(a, 1),
        r.brpop(a, 1),
        r.llen(a),
        r.rpop(a),
        r.lpop(a),
        r.blpop(a, 0.05),
    ],
    "pops at both ends, the right one first": lambda r, a, b: [
        r.rpush(a, 1, 2, 3, 4),
        r.rpop(a),
        r.lpop(a),
        r.rpop(a, 1),
        r.blpop(a, 1),
        r.llen(a),
    ],
    "timeouts as text": lambda r, a, b: [
        r.rpush(a, 1, 2),
        r.brpop(a, "1"),
        r.brpop(a, b"0.5"),
        r.brpop(a, "0.05"),
    ],
    "no timeout": lambda r, a, b: [r.rpush(a, 1), r.brpop(a, None)],
    "a name twice": lambda r, a, b: [r.rpush(a, 1), r.brpop([a, a], 1), r.brpop([a, a], 0.05)],
    "llen": lambda r, a, b: [r.llen(a), r.rpush(a, 1, 2), r.llen(a), r.rpop(a), r.llen(a)],
    "lindex, linsert, lset, lrem, ltrim, lpos, lrange": lambda r, a, b: [
        r.rpush(a, 1, 2, 3, 2),
        r.lindex(a, 0),
        r.linsert(a, "after", 2, "x"),
        r.lset(a, 1, "y"),
        r.lrem(a, 1, 2),
        r.lpos(a, "x"),
        r.ltrim(a, 1, 2),
        r.lrange(a, 0, -1),
    ],
    "sort": lambda r, a, b: [r.rpush(a, 3, 1, 2), r.sort(a), r.sort(a, store=b), r.lrange(b, 0, 9)],
    "rpoplpush and brpoplpush": lambda r, a, b: [
        r.rpush(a, 1, 2, 3),
        r.rpoplpush(a, b),
        r.brpoplpush(a, b),
        r.brpoplpush(a, b, timeout=1),
        r.rpoplpush(a, b),
        r.lrange(b, 0, -1),
    ],
    "lmove and blmove": lambda r, a, b: [
        r.rpush(a, 1, 2, 3),
        r.lmove(a, b),
        r.lmove(a, b, "RIGHT", "LEFT"),
        r.blmove(a, b, 1),
        r.lrange(b, 0, -1),
    ],
    "delete and unlink": lambda r, a, b: [
        r.rpush(a, 1),
        r.rpush(b, 1),
        r.delete(a, b, "no"),
        r.exists(a, b),
        r.rpush(a, 1),
        r.unlink(a),
        r.delete(a),
        r.llen(a),
    ],
    "rename": lambda r, a, b: [r.rpush(a, 1), r.rename(a, b), r.llen(a), r.rpop(b)],
    "type and exists": lambda r, a, b: [
        r.rpush(a, 1),
        r.type(a),
        r.exists(a),
        r.rpop(a),
        r.exists(a),
        r.type(a),
    ],
    "bytes that are not text": lambda r, a, b: [
        r.lpush(a, b"\xff\x00", memoryview(b"m")),
        r.rpop(a),
        r.rpop(a),
    ],
    "names as bytes": lambda r, a, b: [
        r.lpush(a.encode(), 1, 2, 3),
        r.rpop(memoryview(a.encode())),
        r.rpop(a.encode()),
        r.brpop([a.encode()]),
    ],
}
ERRORS: dict[str, Callable[[Any, str], object]] = {
    "lpop of a string": lambda r, a: (r.set(a, 1), r.lpop(a)),
    "blpop of a string": lambda r, a: (r.set(a, 1), r.blpop(a, 1)),
    "lpop with a negative count": lambda r, a: r.lpop(a, -1),
    "blpop with a negative timeout": lambda r, a: r.blpop(a, -1),
    "rpop of a string": lambda r, a: (r.set(a, 1), r.rpop(a)),
    "rpop of a string, with a count": lambda r, a: (r.set(a, 1), r.rpop(a, 2)),
    "brpop of a string": lambda r, a: (r.set(a, 1), r.brpop(a, 1)),
    "llen of a string": lambda r, a: (r.set(a, 1), r.llen(a)),
    "lpush onto a string": lambda r, a: (r.set(a, 1), r.lpush(a, 1)),
    "a negative count": lambda r, a: r.rpop(a, -1),
    "a count that is no number": lambda r, a: r.rpop(a, "x"),
    "a count with a fraction": lambda r, a: r.rpop(a, 1.5),
    "a huge count": lambda r, a: r.rpop(a, 2**70),
    "a count that is a bool": lambda r, a: r.rpop(a, True),
    "a negative timeout": lambda r, a: r.brpop(a, -1),
    "a timeout that is no number": lambda r, a: r.brpop(a, "soon"),
    "a timeout that is nan": lambda r, a: r.brpop(a, float("nan")),
    "an infinite timeout": lambda r, a: r.brpop(a, float("inf")),
    "a timeout that is a bool": lambda r, a: r.brpop(a, True),
    "no key": lambda r, a: r.brpop([]),
    "a key that is None": lambda r, a: r.rpop(None),
    "a key that is a bool": lambda r, a: r.rpop(True),
    "a key that is an object": lambda r, a: r.brpop([object()]),
    "a value that is None": lambda r, a: r.lpush(a, None),
}


@pytest.mark.filterwarnings("ignore::ackq.dropin.UnprotectedWarning")
@pytest.mark.parametrize("calls", CASES.values(), ids=list(CASES))
@pytest.mark.parametrize("decode", [False, True], ids=["bytes", "text"])
def test_results(plain_client: redis.Redis, name: str, calls: Calls, decode: bool) -> None:
    pool = plain_client.connection_pool
    kwargs = pool.connection_kwargs | {"decode_responses": decode}
    plain = redis.Redis(connection_pool=redis.ConnectionPool(pool.connection_class, **kwargs))
    names = f"{name}-1", f"{name}-2"
    with contextlib.suppress(UnicodeDecodeError):
        expected = calls(plain, *names)
        plain.delete(*names)
        with dropin.Redis(plain, hold=0) as r:
            assert calls(r, *names) == expected
            r.delete(*names)
        return
    plain.delete(*names)
    with dropin.Redis(plain, hold=0) as r:
        with pytest.raises(UnicodeDecodeError):
            calls(r, *names)
        r.delete(*names)


@pytest.mark.parametrize("call", ERRORS.values(), ids=list(ERRORS))
def test_errors(
    plain_client: redis.Redis, r: dropin.Redis, name: str, call: Callable[[Any, str], object]
) -> None:
    with pytest.raises(redis.RedisError) as expected:
        call(plain_client, name)
    with pytest.raises(expected.type):
        call(r, name)
    r.delete(name)


def test_names_may_be_numbers(r: Any) -> None:
    for number in (5, 1.5):
        r.lpush(number, "a", "b")
        assert r.rpop(number) == b"a"
        assert r.brpop([number]) == (str(number).encode(), b"b")
        assert r.delete(number) == 0
    assert not r.keys("[15]*")
