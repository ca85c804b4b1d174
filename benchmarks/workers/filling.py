"""Peers that fill their queue, and take from it without settling: processes that take orders."""

import subprocess

from benchmarks.workers.environments import Peer, command_for

PEERS = {
    "BullMQ": Peer("bullmq", "bullmq_filling.mjs", ("bullmq", "ioredis"), node=True),
    "Celery": Peer("celery", "celery_filling.py", ("celery[redis]", "hiredis")),
}


class PeerProcess:
    """A peer that does one thing after the other, and reports when each is done."""

    def __init__(self, peer: Peer, url: str, id_size: int, size: int) -> None:
        """Start it, installing it first if need be.

        Raises:
            Absent: it cannot be installed.
        """
        command = [*command_for(peer), url, str(id_size), str(size)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def do(self, what: str, count: int) -> None:
        """Let it ``fill`` its queue with ``count`` messages, or ``take`` as many."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{what} {count}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if answer != "done\n":
            raise RuntimeError(f"{self._process.args!r} did not {what}: it said {answer!r}")

    def close(self) -> None:
        """End it."""
        self._process.communicate()
