"""The command line's own Redis when its disk is full: one clear line, at once."""

import json
import resource
import shutil
import sys
from pathlib import Path
from typing import Any

import click.testing
import pytest
import redis

from ackq import embedded
from ackq.cli import main
from tests.waiting import wait_until

#: What the server may write to one file, in blocks of 512 bytes.
BLOCKS = 16

pytestmark = [
    pytest.mark.timeout(50),  # it used to wait for a minute
    pytest.mark.skipif(sys.platform != "linux", reason="changes the limit of another process"),
]


def run(*args: str, code: int = 0) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(main, args, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def writes(client: redis.Redis) -> bool:
    persistence: Any = client.info("persistence")
    return bool(persistence["aof_last_write_status"] == "ok")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a shared server that may write a few kilobytes, and has pushed as much."""
    server = tmp_path / "bin" / "redis-server"
    server.parent.mkdir()
    # Without the signal, a write beyond the limit fails as on a full disk.
    limits = f"trap '' XFSZ; ulimit -S -f {BLOCKS}"
    server.write_text(f'#!/bin/sh\n{limits}; exec {embedded.find_server()} "$@"\n')
    server.chmod(0o755)
    monkeypatch.setattr("ackq.embedded.binaries.bundled_server", lambda: None)
    monkeypatch.setenv("PATH", str(server.parent))
    monkeypatch.setenv("ACKQ_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ACKQ_REDIS_URL", raising=False)
    run("push", "jobs", '{"id":"a"}')
    run("push", "jobs", json.dumps({"id": "b", "text": "x" * 512 * BLOCKS}))
    return tmp_path / "home"


def test_what_reads_goes_on_what_writes_says_why_and_with_room_it_goes_on(home: Path) -> None:
    try:
        assert run("stats", "jobs").stdout.startswith("ready\t2\n")
        refused = run("pop", "jobs", code=3).stderr.splitlines()[-1]
        assert refused.startswith("ackq: Redis cannot write to its disk (Errors writing to the AOF")
        assert len(refused) < 250
        assert "problem\tpersistence\twriting to disk fails" in run("doctor", code=1).stdout
        pid = int((home / "redis.pid").read_text())
        hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        with redis.Redis.from_url(embedded.shared_url()) as client:
            wait_until(lambda: writes(client), "the server to try again")
        assert run("pop", "jobs", "--ack").stdout == '{"id":"a"}\n'
    finally:
        embedded.stop_shared()


def test_a_server_that_cannot_start_there_is_one_line(home: Path) -> None:
    embedded.stop_shared()
    log = home / "redis.log"
    with log.open("ab") as file:
        file.truncate(512 * BLOCKS)
    for each in (home / "appendonly.aof", home / "appendonlydir"):
        if each.is_dir():
            shutil.rmtree(each)
        each.unlink(missing_ok=True)
        each.write_bytes(b"not a log of writes")
    assert run("stats", "jobs", code=3).stderr == (
        f"ackq: the redis-server in {home} ended at once."
        " It has logged nothing: is its disk full?\n"
    )
