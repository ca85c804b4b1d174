"""What happens to the last message when a whole program ends."""

import os
import signal
import subprocess
from collections.abc import Callable

import pytest

import ackq
from tests.dropin.seen import LEASE, come_back, in_flight, settled


def test_a_program_that_ends_normally_settles(
    script: Callable[[str], subprocess.Popen[str]], queue: ackq.Queue
) -> None:
    process = script("def main(): r.rpop(name)\nmain()")
    assert process.wait(30) == 0
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
    ids=[
        "error",
        "sys.exit",
        "Ctrl-C",
        "own hook",
        "os._exit",
        "SIGTERM",
        "caught Ctrl-C",
        "a child that ends normally",
    ],
)
def test_a_program_that_ends_in_any_other_way_does_not_settle(
    script: Callable[[str], subprocess.Popen[str]], queue: ackq.Queue, text: str
) -> None:
    process = script(text)
    process.wait(30)
    assert in_flight(queue) == [b"a"] or queue.stats().expired == 1
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


def test_a_forked_child_deletes_a_list_while_its_parent_renews_leases(
    script: Callable[[str], subprocess.Popen[str]], queue: ackq.Queue
) -> None:
    """The child's copy of a lock stays locked if another thread of the parent held it."""
    process = script(
        """
        def main():
            r.rpop(name)
            with r._ackq._renewal._lock:
                child = os.fork()
                if child == 0:
                    r.delete(name + ":worker")
                    os._exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        main()
        """
    )
    output, _ = process.communicate(timeout=30)
    assert output == "7\n"
    assert settled(queue)
