"""`batch`: everything popped in the block is settled at its end, or returned."""

import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

import ackq
from ackq import dropin
from tests.dropin.seen import LEASE, come_back, in_flight, settled
from tests.waiting import wait_until


def test_every_lease_is_renewed(r: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    with r.batch(name):
        for body in range(12):  # popping on and on does not put off renewing the first
            r.lpush(name, body)
            r.rpop(name)
            assert queue.pop(timeout=LEASE / 6) is None
        assert len(in_flight(queue)) == 12
    assert settled(queue)


def test_it_begins_by_settling_what_was_popped_before(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    r.lpush(name, "a", "b")
    r.rpop(name)
    with r.batch(name):
        assert not in_flight(queue)
        r.rpop(name)
    assert settled(queue)


def test_several_lists_and_blocks_in_blocks(r: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    other = f"{name}-2"
    r.lpush(name, "a", "b")
    r.lpush(other, "x")
    with r.batch(name, other):
        assert r.brpop([name, other]) == (name.encode(), b"a")
        with r.batch(name):
            assert r.rpop(name) == b"b"
        assert in_flight(queue) == [b"a", b"b"]
        assert r.brpop([name, other]) == (other.encode(), b"x")
    assert settled(queue)
    assert not r.keys(f"{name}*")


def test_a_function_that_fails_and_is_caught_in_the_block_settles(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    """The block decides, not the functions in it."""

    def fail() -> None:
        r.rpop(name)
        raise ZeroDivisionError

    r.lpush(name, "a", "b")
    with r.batch(name):
        for _ in "ab":
            with pytest.raises(ZeroDivisionError):
                fail()
        assert queue.pop(timeout=2 * LEASE) is None
    assert settled(queue)


def test_other_threads_and_lists_are_not_part_of_it(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    def job() -> None:
        r.rpop(name)
        r.rpop(name)

    r.lpush(name, "a", "b", "c")
    with r.batch(name):
        r.rpop(name)
        thread = threading.Thread(target=job)
        thread.start()
        thread.join()
        wait_until(lambda: in_flight(queue) == [b"a"], "the other thread's messages")
    assert settled(queue)


def test_in_the_job_of_a_pool(r: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    def job() -> object:
        with r.batch(name):
            return r.rpop(name)

    r.lpush(name, "a")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(job).result() == b"a"
        assert settled(queue)


def test_a_deletion_in_the_block(r: dropin.Redis, name: str, queue: ackq.Queue) -> None:
    r.lpush(name, "a")
    with r.batch(name):
        r.rpop(name)
        r.delete(name)
    assert settled(queue)
    assert not r.keys(f"{name}*")


def test_a_kill_gives_all_back(
    script: Callable[[str], subprocess.Popen[str]],
    queue: ackq.Queue,
    name: str,
    plain_client: redis.Redis,
) -> None:
    plain_client.lpush(name, "first")
    process = script(
        """
        with r.batch(name):
            while r.rpop(name): pass
            print(flush=True)
            time.sleep(60)
        """
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    assert {come_back(queue), come_back(queue)} == {b"first", b"a"}


def test_a_forked_child_settles_nothing_of_its_parents(
    script: Callable[[str], subprocess.Popen[str]], queue: ackq.Queue
) -> None:
    process = script(
        """
        with r.batch(name):
            r.rpop(name)
            if os.fork():
                os.wait(); print(flush=True); time.sleep(60)
        os._exit(0)  # the child has left the block
        """
    )
    assert process.stdout is not None
    process.stdout.readline()
    assert in_flight(queue) == [b"a"]
    assert queue.pop(timeout=2 * LEASE) is None
