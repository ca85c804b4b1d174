"""A batch becomes visible once, whatever dies, and nothing that was committed is lost."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from ackq import ConfigurationError, KeyTypeError, Queue
from ackq.core.effects import Operation, Request
from ackq.core.names import STAGED, STAGING
from ackq.errors import StagingLost
from ackq.queue.staging_client import Staging
from ackq.staging import operations
from ackq.staging.client import StagingBase
from ackq.staging.keys import Staged
from tests.servers import Target

Make = Callable[..., Staging]
HOUR = 3600 * 1_000_000


def rows(count: int, prefix: str = "r") -> list[bytes]:
    return [b'{"id":"%b-%d"}' % (prefix.encode(), number) for number in range(count)]


def stage(writer: StagingBase, batch: int, bodies: Iterable[bytes], task: str = "0-a") -> Staged:
    staged = Staged(task)
    writer.stage(batch, staged, list(bodies))
    return staged


def taken(queue: Queue) -> list[bytes]:
    """Return all bodies, in the order of their delivery."""
    found: list[bytes] = []
    while messages := queue.pop_many(1000):
        found += [message.body for message in messages]
    return found


def keys(target: Target, name: str) -> set[str]:
    found: list[bytes] = list(target.control.scan_iter(match=f"{name}*", count=1000))
    return {key.decode().removeprefix(name) for key in found}


class Died(Exception):
    """What stands for the end of a driver."""


def die_after(steps: Operation[Any], requests: int) -> Operation[Any]:
    """Drive an operation that ends after a number of requests, their replies never read."""
    answer = None
    while True:
        step = steps.send(answer)
        if isinstance(step, Request):
            requests -= 1
        answer = yield step
        if requests == 0:
            raise Died


def commit_and_die(writer: StagingBase, batch: int, staged: list[Staged], requests: int) -> None:
    """Commit until that many requests were sent: the first looks for what others left unfinished,
    the second commits, the others move rows."""
    steps = operations.commit(writer._staging, batch, staged, writer._mover())
    with pytest.raises(Died):
        writer._run(die_after(steps, requests))


def test_rows_are_seen_after_the_commit_and_in_their_order(
    make: Make, queue: Queue, target: Target, name: str
) -> None:
    writer = make()
    first = stage(writer, 0, rows(5000, "a"), "00000-a")
    second = stage(writer, 0, rows(3, "b"), "00001-b")
    assert queue.pop() is None
    assert writer.committed() is None
    assert writer.commit(0, [first, second]) == 5003
    assert writer.committed() == 0
    assert taken(queue) == rows(5000, "a") + rows(3, "b")
    assert not {key for key in keys(target, name) if key.startswith((STAGED, STAGING, "HELD"))}


def test_rows_come_behind_those_that_wait(make: Make, queue: Queue) -> None:
    queue.push(b"before")
    writer = make()
    writer.commit(0, [stage(writer, 0, rows(3))])
    assert taken(queue) == [b"before", *rows(3)]


def test_a_task_may_add_rows_to_what_it_staged(make: Make, queue: Queue) -> None:
    writer, staged = make(), Staged("0-a")
    for first in range(0, 100, 20):
        writer.stage(0, staged, rows(100)[first : first + 20])
    assert (staged.rows, staged.delayed) == (100, 0)
    assert writer.commit(0, [staged]) == 100
    assert taken(queue) == rows(100)


def test_delayed_rows_become_ready_at_their_time(make: Make, queue: Queue) -> None:
    writer, staged = make(), Staged("0-a")
    now = writer.now()
    later = [(now + HOUR + number, b'{"id":"later-%d"}' % number) for number in range(1200)]
    writer.stage(0, staged, rows(2), [*later, (now, b'{"id":"due","text":"a:b\\n"}')])
    assert writer.commit(0, [staged]) == 1203
    assert queue.stats().delayed == 1200
    assert sorted(taken(queue)) == sorted([*rows(2), b'{"id":"due","text":"a:b\\n"}'])
    first = queue.peek(1, "delayed")[0]
    assert (first.id, first.at) == ("later-0", (now + HOUR) / 1_000_000)


@pytest.mark.parametrize("batch", [7, 6, 0])
def test_a_batch_that_was_committed_is_dropped(
    make: Make, queue: Queue, target: Target, name: str, batch: int
) -> None:
    writer = make()
    writer.commit(7, [stage(writer, 7, rows(10))])
    again = stage(writer, batch, rows(10), "0-b")
    assert writer.commit(batch, [again]) == 0
    assert writer.committed() == 7
    assert taken(queue) == rows(10)
    assert not {key for key in keys(target, name) if key.startswith(STAGED)}


def test_writers_do_not_know_of_each_other(make: Make, queue: Queue) -> None:
    one, other = make("one"), make("other")
    assert one.commit(3, [stage(one, 3, rows(5, "one"))]) == 5
    assert other.commit(0, [stage(other, 0, rows(5, "other"))]) == 5
    assert len(taken(queue)) == 10


def test_attempts_that_the_commit_does_not_name_are_deleted(
    make: Make, queue: Queue, target: Target, name: str
) -> None:
    writer = make()
    stage(writer, 0, rows(3000, "killed"), "0-killed")
    good = stage(writer, 0, rows(3), "0-good")
    assert writer.commit(0, [good]) == 3
    assert taken(queue) == rows(3)
    assert not {key for key in keys(target, name) if key.startswith((STAGED, STAGING))}


def test_an_attempt_that_outlives_the_commit_of_its_twin_can_stage_no_more(make: Make) -> None:
    writer = make()
    slow = stage(writer, 0, rows(30), "0-slow")
    writer.commit(0, [stage(writer, 0, rows(3), "0-quick")])
    with pytest.raises(StagingLost, match="run the task again"):
        writer.stage(0, slow, rows(3))


def test_abort_deletes_what_is_not_committed(
    make: Make, queue: Queue, target: Target, name: str
) -> None:
    writer = make()
    staged = [stage(writer, 4, rows(20), f"{number}-a") for number in range(5)]
    assert writer.abort(4) == 5
    assert not keys(target, name)
    with pytest.raises(StagingLost, match="Nothing of the batch was committed"):
        writer.commit(4, staged)
    assert writer.committed() is None
    assert queue.pop() is None


def test_an_abort_deletes_more_lists_than_one_call_drops(
    make: Make, target: Target, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "DROPPED_LISTS", 2)
    writer = make()
    for number in range(5):
        stage(writer, 4, rows(1), f"{number}-a")
    assert writer.abort(4) == 5
    assert not keys(target, name)


def test_one_call_drops_50_lists_at_most(make: Make, target: Target) -> None:
    writer = make()
    for number in range(51):
        stage(writer, 4, rows(1), f"{number}-a")
    before = target.calls("unlink")
    looks = target.calls("srandmember")
    assert writer.abort(4) == 51
    assert target.calls("unlink") - before == 51
    assert target.calls("srandmember") - looks == 3


def test_a_task_can_be_discarded_by_itself(make: Make, queue: Queue) -> None:
    writer = make()
    bad, good = stage(writer, 0, rows(3, "bad"), "0-a"), stage(writer, 0, rows(3), "0-b")
    writer.discard(0, bad)
    assert writer.commit(0, [good]) == 3
    assert taken(queue) == rows(3)


def test_what_is_staged_expires_and_what_is_committed_does_not(
    make: Make, target: Target, name: str
) -> None:
    writer = make()
    staged = Staged("0-a")
    writer.stage(0, staged, rows(2500), [(HOUR, b"x")])
    waiting = keys(target, name)
    assert len(waiting) == 3
    for key in waiting:
        assert 86_000_000 < target.control.pttl(name + key) <= 86_400_000
    commit_and_die(writer, 0, [staged], 2)
    for key in waiting - {f"{STAGING}query:0"}:
        assert target.control.pttl(name + key) == -1


def test_rows_that_expired_fail_the_commit_and_nothing_of_it_is_seen(
    make: Make, queue: Queue, target: Target, name: str
) -> None:
    writer = make()
    good, lost = stage(writer, 0, rows(3), "0-a"), stage(writer, 0, rows(3, "lost"), "1-a")
    target.control.delete(f"{name}{STAGED}query:0:1-a")
    with pytest.raises(StagingLost, match="1-a"):
        writer.commit(0, [good, lost])
    assert writer.committed() is None
    assert queue.pop() is None


def test_rows_that_were_pushed_twice_fail_the_commit(
    make: Make, queue: Queue, target: Target, name: str
) -> None:
    writer = make()
    staged = stage(writer, 0, rows(3))
    target.control.lpush(f"{name}{STAGED}query:0:0-a", b"a resent row")
    with pytest.raises(StagingLost):
        writer.stage(0, staged, rows(1))
    with pytest.raises(StagingLost):
        writer.commit(0, [staged])
    assert queue.pop() is None


@pytest.mark.parametrize("requests", [1, 2, 3, 4, 5, 6, 7])
def test_a_driver_may_die_after_any_request_of_a_commit(
    make: Make, queue: Queue, target: Target, name: str, requests: int
) -> None:
    queue.push(b"before")
    writer = make()
    staged = [stage(writer, 3, rows(4500, str(task)), f"{task}-a") for task in range(2)]
    commit_and_die(writer, 3, staged, requests)
    committed = make().committed() == 3
    assert committed == (requests >= 2)
    # The batch is replayed, by attempts of other names.
    again = make()
    replayed = [stage(again, 3, rows(4500, str(task)), f"{task}-b") for task in range(2)]
    assert again.commit(3, replayed) == (0 if committed else 9000)
    assert taken(queue) == [b"before", *rows(4500, "0"), *rows(4500, "1")]
    assert not {key for key in keys(target, name) if key.startswith((STAGED, STAGING, "HELD"))}


@pytest.mark.parametrize("requests", [2, 3, 5])
def test_a_pop_finishes_the_commit_of_a_driver_that_died(
    make: Make, queue: Queue, target: Target, name: str, requests: int
) -> None:
    writer = make()
    queue.push(b"before")
    staged = Staged("0-a")
    due = writer.now() + HOUR
    writer.stage(3, staged, rows(4500), [(due, b'{"id":"later"}')])
    commit_and_die(writer, 3, [staged], requests)
    counts = queue.stats()
    assert counts.ready + counts.delayed == 4502
    assert taken(queue) == [b"before", *rows(4500)]
    assert queue.stats().delayed == 1
    assert not {key for key in keys(target, name) if key.startswith((STAGED, "HELD"))}


def test_the_next_commit_of_anybody_finishes_it_too(make: Make, queue: Queue) -> None:
    writer = make()
    commit_and_die(writer, 3, [stage(writer, 3, rows(4500))], 2)
    other = make("other")
    other.commit(0, [stage(other, 0, rows(3, "other"))])
    assert taken(queue) == [*rows(4500), *rows(3, "other")]


def test_an_abort_after_the_commit_deletes_nothing(make: Make, queue: Queue) -> None:
    writer = make()
    commit_and_die(writer, 3, [stage(writer, 3, rows(4500))], 2)
    assert make().abort(3) == 0
    assert taken(queue) == rows(4500)


def test_the_lists_of_many_tasks_are_merged(
    make: Make, queue: Queue, target: Target, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "MAX_LISTS", 4)
    monkeypatch.setattr(operations, "MERGED_ROWS", 7)
    writer = make()
    staged = []
    for task in range(9):
        staged.append(Staged(f"{task}-a"))
        due = (writer.now() + HOUR, b'{"id":"d%d"}' % task)
        writer.stage(0, staged[-1], rows(task * 5, f"t{task}"), [due])
    assert writer.commit(0, staged) == 36 * 5 + 9
    assert taken(queue) == [row for task in range(9) for row in rows(task * 5, f"t{task}")]
    assert queue.stats().delayed == 9
    assert not {key for key in keys(target, name) if key.startswith((STAGED, STAGING))}


@pytest.mark.parametrize("tasks", [3, 9])
def test_a_commit_of_many_tasks_may_be_repeated(
    make: Make, queue: Queue, target: Target, name: str, monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    monkeypatch.setattr(operations, "MAX_LISTS", 4)
    writer = make()
    staged = [stage(writer, 0, rows(5, f"t{task}"), f"{task}-a") for task in range(tasks)]
    assert writer.commit(0, staged) == 5 * tasks
    assert writer.commit(0, staged) == 0
    again = [stage(writer, 0, rows(5, f"t{task}"), f"{task}-b") for task in range(tasks)]
    assert writer.commit(0, again) == 0
    assert len(taken(queue)) == 5 * tasks
    assert not {key for key in keys(target, name) if key.startswith((STAGED, STAGING))}


@pytest.mark.parametrize("task", ["", "a:b", "0-a:delayed", "delayed", "a*", "{a}", "a\n"])
def test_a_name_of_a_task_that_is_not_its_own_is_refused(make: Make, task: str) -> None:
    """For example the list of another task, batch or writer."""
    with pytest.raises(ConfigurationError, match="task"):
        make().stage(0, Staged(task), rows(1))


def test_two_drivers_of_one_query_commit_a_batch_once(make: Make, queue: Queue) -> None:
    writers = [make(), make()]
    staged = [stage(each, 0, rows(6000), f"0-{at}") for at, each in enumerate(writers)]
    counts: list[int] = []
    barrier = threading.Barrier(2)

    def commit(writer: Staging, task: Staged) -> None:
        barrier.wait()
        try:
            counts.append(writer.commit(0, [task]))
        except StagingLost:
            counts.append(0)  # the other was first, and has cleaned up

    threads = [
        threading.Thread(target=commit, args=pair) for pair in zip(writers, staged, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counts) == [0, 6000]
    assert sorted(taken(queue)) == sorted(rows(6000))


def test_a_writer_can_be_forgotten(make: Make, target: Target, name: str) -> None:
    writer = make()
    writer.commit(5, [stage(writer, 5, rows(1))])
    writer.forget()
    assert writer.committed() is None
    assert keys(target, name) == {""}


def test_a_batch_without_rows_is_marked_too(make: Make, queue: Queue) -> None:
    writer = make()
    assert writer.commit(5, [Staged("0-a")]) == 0
    assert writer.committed() == 5


@pytest.mark.parametrize("writer", ["", "x" * 201, "a*", "{a}", "a\n", "[a]"])
def test_a_writers_name_that_cannot_be_is_refused(make: Make, writer: str) -> None:
    with pytest.raises(ConfigurationError, match="writer"):
        make(writer)


@pytest.mark.parametrize("batch", [-1, 2**53, 1.5])
def test_a_batch_is_a_number_from_0(make: Make, batch: Any) -> None:
    writer = make()
    with pytest.raises(ConfigurationError, match="batch"):
        writer.stage(batch, Staged("0-a"), rows(1))
    with pytest.raises(ConfigurationError, match="batch"):
        writer.commit(batch, [])


@pytest.mark.parametrize("suffix", ["COMMITS", "HELD", "HELDROWS"])
def test_a_key_of_another_type_is_named_and_nothing_is_committed(
    make: Make, target: Target, name: str, suffix: str
) -> None:
    writer = make()
    staged = stage(writer, 0, rows(3))
    target.control.set(name + suffix, "text")
    with pytest.raises(KeyTypeError, match=f"{suffix}' is a string"):
        writer.commit(0, [staged])
    target.control.delete(name + suffix)
    assert writer.commit(0, [staged]) == 3


def test_a_restart_of_the_scripts_is_not_noticed(make: Make, queue: Queue, target: Target) -> None:
    writer = make()
    staged = stage(writer, 0, rows(100))
    target.control.script_flush()
    writer.commit(0, [staged])
    assert taken(queue) == rows(100)
