"""Loops and calls that the drop-in cannot protect are reported, once each, with the user's line."""

import inspect
import queue as queues
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest
import redis

import ackq
from ackq import dropin
from ackq.dropin import loops
from tests.dropin.seen import LEASE, in_flight
from tests.waiting import wait_until


def line_of(text: str) -> int:
    """Return the number of the line of this file that ends with ``text`` in a comment."""
    lines = inspect.getsource(inspect.getmodule(line_of) or line_of).splitlines()
    (found,) = (number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}"))
    return found


def reported(caught: list[warnings.WarningMessage]) -> list[tuple[str, int]]:
    """Return the texts and lines of the reports, and check their file."""
    reports = [each for each in caught if issubclass(each.category, dropin.UnprotectedWarning)]
    assert {report.filename for report in reports} <= {__file__}
    return [(str(report.message), report.lineno) for report in reports]


def collect(r: dropin.Redis, name: str) -> list[bytes]:
    batch = []
    while (raw := r.rpop(name)) is not None:  # collected
        batch.append(raw)
    return batch


def hand_over(r: dropin.Redis, name: str) -> list[bytes]:
    jobs: queues.Queue[bytes] = queues.Queue()
    while found := r.brpop(name, 0.05):  # handed over
        jobs.put(found[1])
    return list(jobs.queue)


def collect_by_count(r: dropin.Redis, name: str) -> list[bytes]:
    batch: list[bytes] = []
    while found := r.rpop(name, 5):  # collected by count
        batch += found
    return batch


@pytest.mark.parametrize(
    ("loop", "where"),
    [(collect, "collected"), (collect_by_count, "collected by count"), (hand_over, "handed over")],
    ids=["rpop", "rpop by count", "brpop"],
)
def test_a_batch_that_is_collected(
    r: dropin.Redis, name: str, loop: Callable[[dropin.Redis, str], list[bytes]], where: str
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            r.lpush(name, *range(100, 200))
            assert len(loop(r, name)) == 100
    *possible, (text, line) = reported(caught)
    assert "collected to be worked on later" in text
    assert repr(name) in text
    assert f"with r.batch('{name}')" in text
    assert line == line_of(where)
    assert len(possible) == (0 if where == "collected by count" else 1)
    assert all("stands between a pop" in text for text, _ in possible)


def test_a_loop_that_works_between_its_pops_is_not_reported(r: dropin.Redis, name: str) -> None:
    r.lpush(name, *range(3 * loops.IN_A_ROW))
    while r.rpop(name) is not None:
        r.ping()


def test_one_pause_begins_the_count_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1]
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now[0])
    signs = loops.Signs()

    def after(nanoseconds: int) -> bool:
        signs.given(b"")
        now[0] += nanoseconds
        return signs.asked() is not None

    assert not any(after(loops.NO_WORK - 1) for _ in range(loops.IN_A_ROW - 1))
    assert not after(loops.NO_WORK)
    assert [after(0) for _ in range(loops.IN_A_ROW)] == [False] * (loops.IN_A_ROW - 1) + [True]
    assert signs.asked() == "10 in a row were asked for within microseconds of each other"


def test_one_message_that_is_let_go_begins_the_count_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "NO_WORK", 0)
    signs = loops.Signs()

    def sign_after(value: bytes | str) -> str | None:
        signs.given(value)
        return signs.asked()

    kept = [b"%d" % number for number in range(100, 100 + loops.IN_A_ROW)]
    # Not the last one: it may be in a variable of the loop.
    assert not any(sign_after(each) for each in kept)
    signs = loops.Signs()
    assert not any(sign_after(each) for each in kept[:-1])
    assert sign_after(bytes(2)) is None
    assert sign_after(bytes(2)) is None
    assert not any(sign_after(each) for each in kept)
    assert sign_after(b"x" * 5) == (
        "the program still refers to the last 10 while it asks for the next"
    )
    signs = loops.Signs()
    shared: list[bytes | str] = [b"", b"a", "a", b"x" * loops.SHORT]
    assert not any(sign_after(each) for each in shared * loops.IN_A_ROW)


@pytest.mark.parametrize(
    ("collect", "hold", "text"),
    [
        ("never", None, "one of warn, refuse, hold"),
        ("hold", None, "needs hold="),
        ("warn", 5, "nothing else takes it"),
        ("hold", 0, "from 1"),
        ("hold", 1.5, "from 1"),
        ("hold", True, "from 1"),
    ],
)
def test_settings_that_mean_nothing(
    plain_client: redis.Redis, collect: Any, hold: Any, text: str
) -> None:
    with pytest.raises(ackq.ConfigurationError, match=text):
        dropin.Redis(plain_client, collect=collect, hold=hold)


def test_a_pop_by_a_pool_for_another_thread(r: dropin.Redis, name: str) -> None:
    r.lpush(name, "a", "b")
    with ThreadPoolExecutor(1) as pool:
        with pytest.warns(dropin.UnprotectedWarning, match=r"ackq\.dropin\.asyncio") as caught:
            assert pool.submit(r.rpop, name).result() == b"a"
        assert repr(name) in str(caught[0].message)
        assert pool.submit(r.brpop, name).result() == (name.encode(), b"b")  # not again


@pytest.mark.parametrize(
    "make", [ThreadPoolExecutor, ThreadPool], ids=["futures", "multiprocessing"]
)
def test_a_job_of_a_pool_that_ends_with_its_message(
    r: dropin.Redis, name: str, queue: ackq.Queue, make: Callable[[int], Any]
) -> None:
    def job() -> None:
        r.rpop(name)  # in a job

    r.lpush(name, "a")
    with make(1) as pool, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pool.apply(job) if make is ThreadPool else pool.submit(job).result()
        wait_until(lambda: bool(reported(caught)), "a report")
        assert queue.pop(timeout=LEASE) is None  # further renewals report nothing
        ((text, line),) = reported(caught)
        assert in_flight(queue) == [b"a"]
    assert f"with r.batch('{name}')" in text
    assert line == line_of("in a job")


def test_a_thread_with_messages_of_many_lists(r: dropin.Redis, name: str) -> None:
    count = loops.MANY_LISTS
    for number in range(count + 5):
        r.lpush(f"{name}-{number}", "a")
    for number in range(count):
        assert r.rpop(f"{name}-{number}") == b"a"
    with pytest.warns(dropin.UnprotectedWarning, match="more than 100 lists"):
        assert r.rpop(f"{name}-{count}") == b"a"
    assert all(r.rpop(f"{name}-{number}") is None for number in range(count + 1))
    for number in range(count + 1, count + 5):
        assert r.rpop(f"{name}-{number}") == b"a"


def test_lists_that_are_used_once_leave_nothing_behind(r: dropin.Redis, name: str) -> None:
    before = r.info("clients")["connected_clients"]
    for number in range(3 * loops.MANY_LISTS):
        reply = f"{name}-{number}"
        r.lpush(reply, "a")
        with r.batch(reply):
            assert r.brpop(reply) == (reply.encode(), b"a")
    assert not r.keys(f"{name}*")
    assert r.info("clients")["connected_clients"] <= before + 5


MOVES: dict[str, Callable[[Any, str], object]] = {
    "rpoplpush": lambda r, name: r.rpoplpush(name, f"{name}-x"),
    "brpoplpush": lambda r, name: r.brpoplpush(name, f"{name}-x", 1),
    "lmove": lambda r, name: r.lmove(name, f"{name}-x", "RIGHT", "LEFT"),
    "blmove": lambda r, name: r.blmove(name, f"{name}-x", 1, "RIGHT", "LEFT"),
}


@pytest.mark.parametrize("command", MOVES)
def test_reliable_list_commands_are_reported(r: dropin.Redis, name: str, command: str) -> None:
    r.lpush(name, "a", "b")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [MOVES[command](r, name) for _ in range(2)] == [b"a", b"b"]
    ((text, _),) = reported(caught)
    assert text.startswith(command)
    assert repr(name) in text


def test_commands_that_pop_from_several_lists_are_reported(
    r: dropin.Redis, name: str, plain_client: redis.Redis
) -> None:
    if int(plain_client.info("server")["redis_version"].split(".")[0]) < 7:
        pytest.skip("LMPOP came with Redis 7")
    r.lpush(name, "a", "b")
    with pytest.warns(dropin.UnprotectedWarning, match="^lmpop takes"):
        r.lmpop(1, name, direction="RIGHT")
    r.lpush(f"{name}-2", "a")  # once for each list
    with pytest.warns(dropin.UnprotectedWarning, match="^blmpop takes"):
        r.blmpop(1, 1, f"{name}-2", direction="RIGHT")


def test_warnings_as_errors_lose_nothing(
    r: dropin.Redis, name: str, queue: ackq.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """pytest's settings turn warnings into errors here."""

    def job() -> None:
        r.rpop(name)

    r.lpush(name, "a", "b")
    with pytest.raises(dropin.UnprotectedWarning):
        r.rpoplpush(name, f"{name}-x")
    assert r.llen(name) == 2
    with ThreadPoolExecutor(1) as pool:
        pool.submit(job).result()
        wait_until(lambda: "job of a thread pool" in caplog.text, "the report in the log")
        assert queue.pop(timeout=2 * LEASE).body == b"b"  # type: ignore[union-attr]
        assert b"a" in in_flight(queue)
    wait_until(lambda: in_flight(queue) == [b"b"], "the ended thread's message to be settled")
