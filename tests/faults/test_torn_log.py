"""What a log that was torn within a transaction costs: with Redis, answers of later.

Redis cuts the log behind the last whole command, and leaves a MULTI without an EXEC. What is
written afterwards belongs to that transaction when the log is read again, and is dropped unless
some EXEC follows. Valkey cuts before the MULTI. docs/guarantees.md says what to do.
"""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ackq
from ackq.embedded import Server
from ackq.errors import AckqError
from tests.servers import private_server
from tests.servers.binaries import bundled_valkey, newest_server, oldest_server, system_server
from tests.servers.target import Absent

REDIS = [oldest_server, system_server, newest_server]
ANSWERED = 5


def torn(directory: Path, binary: Callable[[], Path], **options: str) -> Iterator[Server]:
    """Yield a dead server whose log ends within the script of a pop."""
    try:
        executable = binary()
    except Absent as reason:
        pytest.skip(str(reason))
    directory.mkdir(exist_ok=True)
    (directory / "redis-check-aof").symlink_to(executable)
    with private_server(directory / "server", executable, **options) as server:
        with ackq.Queue.from_url(server.url, "jobs") as queue:
            queue.push({"id": "first"})
            queue.pop()
        server.kill()
        log = next(server.directory.rglob("*incr.aof"), server.directory / "appendonly.aof")
        written = log.read_bytes()
        log.write_bytes(written[: written.rindex(b"jobsBACKUP")])
        yield server


def answered_after_it(server: Server) -> int:
    """Start the server, push, kill and start it; return how many of the pushes are there."""
    server.start()
    with ackq.Queue.from_url(server.url, "jobs") as queue:
        pushed = {queue.push({"id": str(number)}) for number in range(ANSWERED)}
        server.kill()
        server.start()
        return len(pushed & {each.id for each in queue.peek(100)})


def check_log(server: Server) -> None:
    """Do what docs/guarantees.md says."""
    tool = server.directory.parent / "redis-check-aof"
    manifest = next(server.directory.rglob("*.manifest"), server.directory / "appendonly.aof")
    command = [str(tool), "--fix", str(manifest)]
    subprocess.run(command, input=b"y\n", check=True, capture_output=True)


def ready_after_a_pop(server: Server) -> set[str]:
    """Start the server, push another message, ack the first, kill and start it; return the rest."""
    server.start()
    with ackq.Queue.from_url(server.url, "jobs") as queue:
        queue.push({"id": "second"})
        first = queue.pop()  # its EXEC ends the torn transaction
        assert first is not None
        assert first.id == "first"
        queue.ack(first)
        server.kill()
        server.start()
        return {each.id for each in queue.peek(100)}


@pytest.mark.parametrize("binary", REDIS)
def test_a_checked_log_keeps_every_answer(tmp_path: Path, binary: Callable[[], Path]) -> None:
    for number, (use, kept) in enumerate(
        [(answered_after_it, ANSWERED), (ready_after_a_pop, {"second"})]
    ):
        for server in torn(tmp_path / str(number), binary):
            check_log(server)
            assert use(server) == kept


@pytest.mark.parametrize("binary", REDIS)
def test_redis_drops_answers_after_a_log_that_nobody_checked(
    tmp_path: Path, binary: Callable[[], Path]
) -> None:
    for number, use in enumerate([answered_after_it, ready_after_a_pop]):
        for server in torn(tmp_path / str(number), binary):
            assert not use(server), "mended in Redis: docs/guarantees.md may say so"


@pytest.mark.parametrize("binary", REDIS)
def test_redis_can_be_told_to_refuse_such_a_log(tmp_path: Path, binary: Callable[[], Path]) -> None:
    for server in torn(tmp_path, binary, aof_load_truncated="no"):
        with pytest.raises(AckqError, match="aof-load-truncated"):
            server.start()


def test_valkey_keeps_every_answer(tmp_path: Path) -> None:
    for server in torn(tmp_path, bundled_valkey):
        assert answered_after_it(server) == ANSWERED
