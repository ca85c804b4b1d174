"""A long file that fails half-way says how many lines went in, and goes on from there."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis

from ackq import Queue
from ackq.cli.push import CHUNK, _chunks
from ackq.errors import UnknownOutcome
from tests import forked
from tests.cli.conftest import Run
from tests.cli.test_processes import leave
from tests.waiting import wait_until


def test_after_a_bad_line_the_rest_can_be_pushed(
    ackq: Run, name: str, tmp_path: Path, plain_client: redis.Redis
) -> None:
    lines = [f'{{"id":{number}}}\n' for number in range(2 * CHUNK)]
    lines[3] = "\n"  # counts as a line, so that editors agree
    path = tmp_path / "lines"
    path.write_text("".join([*lines[: CHUNK + 5], "{\n", *lines[CHUNK + 5 :]]))
    result = ackq("push", name, "--file", str(path), code=3)
    went_in = f"{CHUNK + 1:,} lines pushed; go on with --skip {CHUNK + 1}"
    assert went_in in result.stderr
    assert f"line or argument {CHUNK + 6}" in result.stderr
    path.write_text("".join(lines))
    ackq("push", name, "--file", str(path), "--skip", str(CHUNK + 1))
    pushed = [json.loads(each)["id"] for each in reversed(plain_client.lrange(name, 0, -1))]
    assert pushed == [number for number in range(2 * CHUNK) if number != 3]


def test_a_lost_reply_counts_only_what_surely_went_in(
    ackq: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    push_many = Queue.push_many
    calls = iter((True, False))

    def lose_the_second(queue: Queue, messages: Any, **settings: Any) -> list[str]:
        ids = push_many(queue, messages, **settings)
        if next(calls):
            return ids
        raise UnknownOutcome("the reply was lost")

    monkeypatch.setattr(Queue, "push_many", lose_the_second)
    text = "".join(f'{{"id":{number}}}\n' for number in range(CHUNK + 9))
    result = ackq("push", name, input=text, code=3)
    assert f"--skip {CHUNK}" in result.stderr
    assert "the reply was lost" in result.stderr


def test_lines_that_were_passed_over_count(ackq: Run, name: str) -> None:
    result = ackq("push", name, "--skip", "2", input="{}\n{}\n{}\n{\n", code=3)
    assert result.stderr.startswith("ackq: 2 lines pushed; go on with --skip 2\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("went_in", [0, CHUNK])
def test_an_interruption_says_how_many_went_in(
    url: str, name: str, number: signal.Signals, went_in: int
) -> None:
    with (
        forked.Popen(
            [sys.executable, "-c", "from ackq.cli import main; main()", "push", name, "--url", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
        Queue.from_url(url, name) as queue,
    ):
        assert process.stdin is not None
        process.stdin.write("{}\n" * (CHUNK + 1 if went_in else 0))
        process.stdin.write("x" * 1_000_000)  # no pipe holds it: once it is in, it is being read
        process.stdin.flush()
        wait_until(lambda: queue.stats().ready == went_in, "what comes before")
        leave(process, number)
        assert process.returncode == 130
        assert process.stderr is not None
        errors = process.stderr.read()
    how = f"; go on with --skip {went_in}" if went_in else ""
    assert errors == f"ackq: {went_in:,} lines pushed{how}\n"


def test_lines_can_be_scheduled(ackq: Run, name: str, url: str) -> None:
    ackq("push", name, "--delay", "60", input='{"id":1}\n{"id":2}\n')
    with Queue.from_url(url, name) as queue:
        assert queue.stats().delayed == 2


def test_a_chunk_is_small_enough_to_go_in_whole() -> None:
    lines = [b"x" * (3 * 2**20) + b"\n"] * 3 + [b"y\n"] * (CHUNK + 1)
    chunks = list(_chunks(lines, 0, True, None, (), None, 1 << 24))
    assert [len(chunk) for chunk, _, _ in chunks] == [1, 1, CHUNK, 2]
    assert [number for _, number, _ in chunks] == [1, 2, 2 + CHUNK, 4 + CHUNK]
    assert chunks[-1][2] == sum(map(len, lines))


def test_lines_are_counted_and_named_on_demand(ackq: Run, name: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text('{"id":"a"}\n\n{"id":"b"}\n')
    assert ackq("push", name, "--file", str(path)).stdout == "2 messages pushed\n"
    assert ackq("push", name, input='{"id":"c"}').stdout == "1 message pushed\n"
    assert ackq("push", name, "--file", str(path), "--ids").stdout == "a\nb\n"
