"""The one-line switch: redis-py's own calls, on a real server, with consumers that really die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

import ackq
from ackq import dropin
from tests.waiting import wait_until

#: Seconds; short, so that what was lost comes back within the test.
LEASE = 0.6


@pytest.fixture
def r(embedded_client: redis.Redis) -> Iterator[dropin.Redis]:
    with dropin.Redis(embedded_client, visibility_timeout=LEASE) as r:
        yield r


@pytest.fixture
def queue(embedded_client: redis.Redis, name: str) -> Iterator[ackq.Queue]:
    """The same queue, seen from outside."""
    with ackq.Queue(embedded_client, name, visibility_timeout=LEASE) as queue:
        yield queue


def in_flight(queue: ackq.Queue) -> list[bytes]:
    return sorted(message.body for message in queue.peek(100, "in_flight"))


def come_back(queue: ackq.Queue) -> bytes:
    message = queue.pop(timeout=10 * LEASE)
    assert message is not None
    queue.ack(message)
    assert message.receive_count == 2
    return message.body


def settled(queue: ackq.Queue) -> bool:
    stats = queue.stats()
    return (stats.ready, stats.in_flight) == (0, 0)


def run_in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


# --- redis-py's own signatures ---------------------------------------------------


def test_it_answers_what_redis_py_answers(r: dropin.Redis, name: str) -> None:
    assert r.rpop(name) is None
    assert r.rpop(name, 2) is None
    assert r.rpop(name, 0) is None
    assert r.lpush(name, "a", b"b", 3) == 3
    assert r.llen(name) == 3
    assert r.rpop(name, 0) == []
    assert r.rpop(name) == b"a"
    assert r.rpop(name, 9) == [b"b", b"3"]
    assert r.brpop(name, timeout=0.05) is None
    assert r.llen(name) == 0


def test_what_it_refuses_redis_refuses_too(r: dropin.Redis, name: str) -> None:
    with pytest.raises(redis.ResponseError, match="must be positive"):
        r.rpop(name, -1)
    with pytest.raises(redis.ResponseError, match="timeout is negative"):
        r.brpop(name, -1)
    with pytest.raises(redis.ResponseError, match="wrong number of arguments"):
        r.brpop([])


def test_names_may_be_bytes(r: dropin.Redis, name: str) -> None:
    r.lpush(name.encode(), "a", "b")
    assert r.rpop(name.encode()) == b"a"
    assert r.brpop([name.encode()]) == (name.encode(), b"b")


def test_the_clients_decoding_is_honoured(embedded_client: redis.Redis, name: str) -> None:
    kwargs = embedded_client.connection_pool.connection_kwargs | {"decode_responses": True}
    kind = embedded_client.connection_pool.connection_class
    pool = redis.ConnectionPool(connection_class=kind, **kwargs)
    with dropin.Redis(redis.Redis(connection_pool=pool)) as r:
        r.lpush(name, "ä", "b", "c")
        assert r.rpop(name) == "ä"
        assert r.rpop(name, 1) == ["b"]
        assert r.brpop(name) == (name, "c")


def test_a_body_that_cannot_be_decoded_is_not_settled(
    embedded_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    kwargs = embedded_client.connection_pool.connection_kwargs | {"decode_responses": True}
    kind = embedded_client.connection_pool.connection_class
    pool = redis.ConnectionPool(connection_class=kind, **kwargs)
    with dropin.Redis(redis.Redis(connection_pool=pool), visibility_timeout=LEASE) as r:
        r.lpush(name, b"\xff")
        with pytest.raises(UnicodeDecodeError):
            r.rpop(name)
        assert r.rpop(name) is None
    assert come_back(queue) == b"\xff"


def test_everything_else_is_the_clients(r: dropin.Redis, name: str) -> None:
    assert r.ping()
    assert r.rpush(name, "a") == 1
    assert r.pipeline().llen(name).execute() == [1]
    with pytest.raises(AttributeError):
        r.no_such_command  # noqa: B018


@pytest.mark.parametrize(
    "body",
    [b"", b"\0", b"{", b'{"id":1}', b'{"id":null}', b"\xff\xfe\n", b"x" * (2 * 1024 * 1024)],
    ids=["empty", "NUL", "brace", "id", "null-id", "bytes", "2 MiB"],
)
def test_any_body_passes_byte_for_byte(
    r: dropin.Redis, name: str, queue: ackq.Queue, body: bytes
) -> None:
    r.lpush(name, body, body)
    assert [r.rpop(name), r.rpop(name), r.rpop(name)] == [body, body, None]
    assert settled(queue)


def test_a_count_is_never_cut_short(r: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    r.lpush(name, *range(2500))
    assert r.rpop(name, 2400) == [b"%d" % n for n in range(2400)]
    r.lpush(name, *[b"x" * 4_000_000] * 4)
    assert len(r.rpop(name, 104)) == 104
    assert r.rpop(name) is None
    assert settled(queue)


# --- when a message is settled ----------------------------------------------------


def test_a_message_is_settled_as_the_next_is_taken(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    r.lpush(name, "a", "b")
    r.rpop(name)
    assert in_flight(queue) == [b"a"]
    r.rpop(name)
    assert in_flight(queue) == [b"b"]
    assert r.rpop(name) is None
    assert settled(queue)


def test_settling_costs_no_round_trip(
    r: dropin.Redis, name: str, embedded_client: redis.Redis
) -> None:
    r.lpush(name, *range(21))
    r.rpop(name)
    before = embedded_client.info("commandstats")["cmdstat_evalsha"]["calls"]
    for _ in range(20):
        r.rpop(name)
    after = embedded_client.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert after - before == 20


def test_each_queue_and_each_thread_has_its_own(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    other = f"{name}-other"
    r.lpush(name, "a", "b")
    r.lpush(other, "x")
    r.rpop(name)
    assert r.rpop(other) == b"x"
    assert in_flight(queue) == [b"a"]
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(r.rpop, name).result() == b"b"
        assert in_flight(queue) == [b"a", b"b"]
        pool.submit(r.rpop, name).result()
    assert in_flight(queue) == [b"a"]


def test_brpop_wakes_up_and_settles(r: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    timer = threading.Timer(0.2, lambda: r.lpush(name, "a"))
    timer.start()
    assert r.brpop(name) == (name.encode(), b"a")
    timer.join()
    assert r.brpop(name, timeout=0.01) is None
    assert settled(queue)


def test_brpop_looks_at_several_keys_in_their_order(r: dropin.Redis, name: str) -> None:
    names = [f"{name}-{n}" for n in range(3)]
    for each in reversed(names):
        r.lpush(each, f"in {each}")
    popped = [r.brpop(names) for _ in names]
    assert popped == [(each.encode(), f"in {each}".encode()) for each in names]
    assert r.brpop(names, timeout=0.25) is None
    assert not any(r.llen(each) or r.exists(f"{each}BACKUP") for each in names)
    timer = threading.Timer(0.1, lambda: r.lpush(names[2], "late"))
    timer.start()
    assert r.brpop(names) == (names[2].encode(), b"late")
    timer.join()


def test_several_keys_settle_what_came_from_any_of_them(r: dropin.Redis, name: str) -> None:
    first, second = f"{name}-1", f"{name}-2"
    r.lpush(second, "a")
    r.brpop([first, second])
    r.lpush(first, "b")
    assert r.brpop([first, second]) == (first.encode(), b"b")
    assert not r.exists(f"{second}BACKUP")


def test_the_lease_is_renewed_while_the_thread_works(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    r.lpush(name, "slow")
    r.rpop(name)
    assert queue.pop(timeout=3 * LEASE) is None
    assert r.rpop(name) is None
    assert settled(queue)


def test_a_wait_for_the_next_message_is_not_disturbed(
    r: dropin.Redis, name: str, queue: ackq.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    r.lpush(name, '{"id":"a"}')
    r.rpop(name)
    timer = threading.Timer(1.5 * LEASE, lambda: r.lpush(name, '{"id":"a"}'))
    timer.start()
    assert r.brpop(name) == (name.encode(), b'{"id":"a"}')
    timer.join()
    r.close()
    assert settled(queue)
    assert not caplog.records


def test_a_lost_lease_is_told_and_raises_nothing(
    r: dropin.Redis, name: str, queue: ackq.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    r.lpush(name, '{"id":"a"}')
    r.rpop(name)
    queue.drain()
    taken = queue.pop()
    assert r.rpop(name) is None
    assert "'a'" in caplog.text
    assert "delivered again" in caplog.text
    assert taken is not None
    assert queue.ack(taken) == 1


# --- how a consumer ends ----------------------------------------------------------


def test_close_and_a_with_block_settle(
    embedded_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    for _ in range(2):
        with dropin.Redis(embedded_client) as r:
            r.lpush(name, "a")
            r.rpop(name)
        assert settled(queue)
        r.lpush(name, "b")
        r.rpop(name)
        r.close()
        assert settled(queue)


def test_a_with_block_that_raises_does_not_settle(
    embedded_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    def consume() -> None:
        with dropin.Redis(embedded_client, visibility_timeout=LEASE) as r:
            r.lpush(name, "a")
            r.rpop(name)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        consume()
    assert come_back(queue) == b"a"


def test_close_in_a_finally_clause_does_not_settle_what_failed(
    embedded_client: redis.Redis, name: str, queue: ackq.Queue
) -> None:
    def consume() -> None:
        r = dropin.Redis(embedded_client, visibility_timeout=LEASE)
        try:
            r.lpush(name, "a")
            r.rpop(name)
            raise ZeroDivisionError
        finally:
            r.close()

    with pytest.raises(ZeroDivisionError):
        consume()
    assert come_back(queue) == b"a"


def test_a_thread_that_returns_settles(r: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    r.lpush(name, "a")
    run_in_thread(lambda: r.rpop(name))
    wait_until(lambda: settled(queue), "the ended thread's message to be settled")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_a_thread_that_raises_does_not_settle(
    r: dropin.Redis, name: str, queue: ackq.Queue, error: type[BaseException]
) -> None:
    def consume() -> None:
        r.rpop(name)
        raise error

    r.lpush(name, "a")
    run_in_thread(consume)
    assert come_back(queue) == b"a"


def test_a_task_that_fails_in_an_executor_does_not_settle(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    def consume() -> None:
        r.rpop(name)
        raise ZeroDivisionError

    r.lpush(name, "a")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(consume).exception() is not None
        # The thread lives on, and yet does not keep the lease alive.
        assert come_back(queue) == b"a"


def test_a_loop_that_starts_a_failed_consumer_again_does_not_settle(
    r: dropin.Redis, name: str, queue: ackq.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    done = []

    def consume() -> None:
        while (raw := r.rpop(name)) is not None:
            if raw == b"bad" and raw not in done:
                done.append(raw)
                raise ZeroDivisionError
            done.append(raw)

    r.lpush(name, "good", "bad", "good")
    with pytest.raises(ZeroDivisionError):
        consume()
    consume()
    assert "comes back" in caplog.text
    wait_until(lambda: r.llen(name), "the message that failed")
    consume()
    assert done == [b"good", b"bad", b"good", b"bad"]
    assert settled(queue)


def test_a_helper_and_a_generator_may_do_the_popping(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    def jobs() -> Iterator[bytes]:
        while (raw := r.rpop(name)) is not None:
            yield raw

    def consume() -> None:
        for _ in jobs():
            time.sleep(2 * LEASE)  # the generator is suspended; its lease goes on
            assert queue.pop() is None
            raise ZeroDivisionError

    r.lpush(name, "a", "b")
    for raw in jobs():
        assert in_flight(queue) == [raw]
    assert settled(queue)
    r.lpush(name, "c")
    with pytest.raises(ZeroDivisionError):
        consume()
    assert come_back(queue) == b"c"


PRELUDE = """
import os, signal, sys, threading, time
import redis
from ackq import dropin

r = dropin.Redis(redis.Redis.from_url(sys.argv[1]), visibility_timeout=0.6)
name = sys.argv[2]
"""


@pytest.fixture
def script(
    tmp_path: Path, embedded_client: redis.Redis, name: str
) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """``script(text)``: a Python process that has ``r`` and ``name``, and 'a' on the list."""
    settings = embedded_client.connection_pool.connection_kwargs
    url = f"unix://{settings['path']}" if "path" in settings else f"redis://:{settings['port']}"
    started = []

    def start(text: str) -> subprocess.Popen[str]:
        path = tmp_path / "consumer.py"
        path.write_text(PRELUDE + textwrap.dedent(text))
        embedded_client.lpush(name, "a")
        command = [sys.executable, str(path), url, name]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_program_that_ends_normally_settles(
    script: Callable[[str], subprocess.Popen[str]], queue: ackq.Queue
) -> None:
    process = script("def main(): r.rpop(name)\nmain()")
    assert process.wait(10) == 0
    assert settled(queue)


@pytest.mark.parametrize(
    "text",
    [
        "r.rpop(name); 1 / 0",
        "r.rpop(name); sys.exit()",
        "r.rpop(name); raise KeyboardInterrupt",
        "sys.excepthook = lambda *_: None; r.rpop(name); 1 / 0",
        "r.rpop(name); os._exit(0)",
        # What service managers send, and how many a consumer answers it.
        """
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        def work(): os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)
        def main(): r.rpop(name); work()
        main()
        """,
        """
        def main():
            try:
                r.rpop(name); os.kill(os.getpid(), signal.SIGINT); time.sleep(5)
            except KeyboardInterrupt:
                print("bye")
        main()
        """,
        "r.rpop(name)\nif os.fork(): os.wait(); os._exit(0)",
    ],
    ids=["error", "sys.exit", "Ctrl-C", "own hook", "os._exit", "SIGTERM", "caught Ctrl-C",
         "a child that ends normally"],
)  # fmt: skip
def test_a_program_that_ends_in_any_other_way_does_not_settle(
    script: Callable[[str], subprocess.Popen[str]], queue: ackq.Queue, text: str
) -> None:
    process = script(text)
    process.wait(10)
    assert in_flight(queue) == [b"a"] or queue.stats().expired == 1
    assert come_back(queue) == b"a"


def test_a_consumer_that_is_killed_at_work_gives_its_message_back(
    script: Callable[[str], subprocess.Popen[str]], queue: ackq.Queue
) -> None:
    process = script("print(r.brpop(name), flush=True); time.sleep(60)")
    assert process.stdout is not None
    process.stdout.readline()
    assert queue.pop(timeout=2 * LEASE) is None
    process.send_signal(signal.SIGKILL)
    assert come_back(queue) == b"a"


def test_a_process_that_hangs_loses_its_lease(
    script: Callable[[str], subprocess.Popen[str]], queue: ackq.Queue
) -> None:
    process = script("r.rpop(name); print(flush=True); time.sleep(60)")
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, signal.SIGSTOP)
    assert come_back(queue) == b"a"


def test_a_forked_child_holds_nothing_of_its_parents(
    script: Callable[[str], subprocess.Popen[str]], queue: ackq.Queue
) -> None:
    process = script(
        """
        r.rpop(name)
        if os.fork() == 0:
            assert r.rpop(name) is None
            r.close()
            os._exit(0)
        print(os.wait()[1], flush=True)
        time.sleep(60)
        """
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    assert queue.pop(timeout=2 * LEASE) is None
    assert in_flight(queue) == [b"a"]


# --- moving over, and back --------------------------------------------------------


def leave_like_the_article(client: redis.Redis, name: str, id: str, age: float) -> bytes:
    """Leave what the article's pop script leaves: the time of the pop as the score."""
    body = b'{"id": "%s"}' % id.encode()
    client.zadd(f"{name}BACKUP", {id: int(time.time() - age)})
    client.hset(f"{name}CONTEXT", id, body)
    return body


def test_what_the_articles_consumers_left_is_taken_over(
    r: dropin.Redis, name: str, queue: ackq.Queue, embedded_client: redis.Redis
) -> None:
    left = {leave_like_the_article(embedded_client, name, f"old-{n}", n) for n in range(3)}
    r.lpush(name, '{"id": "new"}')
    assert r.llen(name) == 4
    assert {r.rpop(name) for _ in left} == left
    assert r.rpop(name) == b'{"id": "new"}'
    assert r.rpop(name) is None
    assert settled(queue)
    assert queue.audit().findings == ()


def test_going_back_puts_everything_onto_the_list(
    r: dropin.Redis, name: str, queue: ackq.Queue, embedded_client: redis.Redis
) -> None:
    r.lpush(name, "a", "b", "c")
    r.rpop(name, 2)
    assert queue.drain() == 2
    assert [embedded_client.rpop(name) for _ in range(4)] == [b"a", b"b", b"c", None]
