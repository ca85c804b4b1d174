"""When a message is settled, and for how long its lease is kept."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import ackq
from ackq import dropin
from ackq.dropin.in_flight import InFlight
from ackq.dropin.renewal import LeaseRenewal
from tests.dropin.seen import LEASE, in_flight, settled
from tests.waiting import wait_until


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


def test_several_keys_settle_what_came_from_any_of_them(r: dropin.Redis, name: str) -> None:
    first, second = f"{name}-1", f"{name}-2"
    r.lpush(second, "a")
    r.brpop([first, second])
    r.lpush(first, "b")
    assert r.brpop([first, second]) == (first.encode(), b"b")
    assert not r.exists(f"{second}BACKUP")


def test_a_lease_is_renewed_long_before_it_ends(
    r: dropin.Redis, name: str, queue: ackq.Queue
) -> None:
    r.lpush(name, "slow")
    r.rpop(name)
    ends = [lease_end(queue)]

    def renewed_early() -> bool:
        if (end := lease_end(queue)) != ends[-1]:
            ends.append(end)
        # By the server's clock, give or take a jitter of 66 ms. A busy machine may be late once.
        return any(later - before < 0.8 * LEASE for before, later in itertools.pairwise(ends))

    wait_until(renewed_early, "a renewal with a part of the lease left")


def test_a_message_that_comes_just_as_the_hand_is_found_empty_is_renewed(
    r: dropin.Redis, name: str, queue: ackq.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    tend, found_empty, refilled = InFlight.tend, threading.Event(), threading.Event()

    def tend_slowly(in_flight: InFlight) -> bool:
        more = tend(in_flight)
        if not more and not found_empty.is_set():
            found_empty.set()
            assert refilled.wait(30)
        return more

    r.lpush(name, "a", "b")
    r.rpop(name)
    monkeypatch.setattr(InFlight, "tend", tend_slowly)
    r.rpop(name, 0)  # settles, and takes nothing
    assert found_empty.wait(30)
    assert r.rpop(name) == b"b"
    refilled.set()
    end = lease_end(queue)
    wait_until(lambda: lease_end(queue) != end, "its lease to be renewed")


def test_the_renewal_ends_when_nothing_is_in_flight_and_begins_again(
    r: dropin.Redis, name: str
) -> None:
    def renews() -> bool:
        found = [thread for thread in threading.enumerate() if thread.name == "ackq-renew"]
        assert all(thread.daemon for thread in found)  # or a program would never end
        return bool(found)

    for _ in range(2):
        wait_until(lambda: not renews(), "the renewal to end")
        r.lpush(name, "a")
        r.rpop(name)
        assert renews()
        assert r.rpop(name) is None


def lease_end(queue: ackq.Queue) -> float:
    """Return when the lease of the one message in flight ends, by the server's clock."""
    (message,) = queue.peek(2, "in_flight")
    assert message.at is not None
    return message.at


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


@pytest.mark.parametrize("taken", [False, True])
def test_a_lost_lease_is_logged_and_raises_nothing(
    r: dropin.Redis, name: str, queue: ackq.Queue, caplog: pytest.LogCaptureFixture, taken: bool
) -> None:
    """Whether its message is gone, or another consumer's."""
    r.lpush(name, '{"id":"a"}')
    r.rpop(name)
    assert (queue.drain() if taken else queue.purge()) == 1
    others = queue.pop_many(1)
    assert r.rpop(name) is None
    assert "lease of 'a' ended" in caplog.text
    assert "delivered again" in caplog.text
    assert queue.ack(*others) == taken


def test_a_lost_lease_is_logged_once_while_the_work_goes_on(
    r: dropin.Redis, name: str, queue: ackq.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    r.lpush(name, '{"id":"a"}', '{"id":"b"}')
    r.rpop(name, 2)
    queue.ack_id("a")
    first, second = r._ackq.in_flight(name).messages
    wait_until(lambda: first.lease_lost, "a renewal notices that the lease is lost")
    seen = caplog.text.count("ended before its work was done")
    ends = second.lease_expires_at
    wait_until(lambda: second.lease_expires_at > ends + 1, "more renewals of the other")
    assert caplog.text.count("ended before its work was done") == seen == 1
    (lost,) = [
        message for message in caplog.messages if "ended before its work was done" in message
    ]
    assert name in lost


class _Failing:
    """Messages in flight whose renewal first raises a warning as an error."""

    messages = ()

    def __init__(self) -> None:
        self.renewals = 0

    def tend(self) -> bool:
        self.renewals += 1
        if self.renewals == 1:
            raise UserWarning("a warning about %s")
        return False


def test_a_warning_as_an_error_ends_no_renewal(caplog: pytest.LogCaptureFixture) -> None:
    renewal, failing = LeaseRenewal(0.06), _Failing()
    renewal.watch(failing)  # type: ignore[arg-type]
    wait_until(lambda: not renewal.all_in_flight(), "nothing is in flight")
    assert failing.renewals == 2
    assert [record.getMessage() for record in caplog.records] == ["a warning about %s"]
