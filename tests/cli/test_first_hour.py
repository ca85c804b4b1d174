"""What a new user meets first: names of queues, words, groups, and messages about mistakes."""

import json
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import click
import pytest
import redis

import ackq.cli.queue_names
from ackq import Queue
from ackq.cli.queue_names import complete_queue
from ackq.queue import take
from tests.cli.conftest import Run
from tests.cli.terminal import shown


def test_queues_lists_queues_and_lists_that_no_consumer_has_used(
    ackq: Run, plain_client: redis.Redis, token: str
) -> None:
    used, unused = f"{token}-used", f"{token}-unused"
    plain_client.lpush(unused, b"1", b"2")
    for wake in (f"{token}:wake", f"{token}:Q.wake"):  # of a delay queue, and of RSMQ
        plain_client.lpush(wake, b"1")
    with Queue(plain_client, used) as queue:
        queue.push_many([{"id": "a"}, {"id": "b"}])
        queue.pop()
    for command in ("queues", "ls"):
        rows = [json.loads(line) for line in ackq(command, "--json").output.splitlines()]
        mine = {row["queue"]: row for row in rows if row["queue"].startswith(token)}
        assert [*mine] == [unused, used]
        assert (mine[unused]["ready"], mine[unused]["notes"]) == (2, "bare list")
        assert (mine[used]["ready"], mine[used]["in_flight"], mine[used]["notes"]) == (1, 1, "")


def test_stats_of_a_queue_that_does_not_exist_is_code_1(ackq: Run, name: str) -> None:
    delay = ("--kind", "delay")
    for options in ((), ("--parts",), delay, (*delay, "--partitions", "3")):
        result = ackq("stats", name, *options, code=1)
        assert result.stdout == ""
        assert f"there is no queue '{name}', or it is empty" in result.stderr
    for options in ((), delay):
        assert json.loads(ackq("stats", name, *options, "--json", code=1).stdout)["ready"] == 0
    ackq("stats", name, *delay, "--totals")  # it is counted from now on
    assert "ready\t0\n" in ackq("stats", name, *delay).output


def test_tab_completes_queues_and_lists_and_never_starts_a_server(
    plain_client: redis.Redis, url: str, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_client.lpush(f"{token}-plain", b"1")
    with Queue(plain_client, f"{token}-used") as queue:
        queue.push({"id": "a"})
        queue.pop()
    parameter = click.Argument(["queue"])
    context = click.Context(click.Command("stats"))
    context.params["url"] = url
    assert complete_queue(context, parameter, token) == [f"{token}-plain", f"{token}-used"]
    assert complete_queue(context, parameter, f"{token}-u") == [f"{token}-used"]
    monkeypatch.setenv("ACKQ_HOME", str(tmp_path))
    context.params["url"] = None
    assert complete_queue(context, parameter, token) == []
    assert not (tmp_path / "redis.conf").exists()
    context.params["url"] = "redis://localhost:1"
    assert complete_queue(context, parameter, "") == []
    assert ackq.cli.queue_names.EXAMINED >= 1000


def test_counts_are_words_in_a_terminal_and_numbers_in_a_pipe(
    ackq: Run, url: str, name: str, plain_client: redis.Redis
) -> None:
    with Queue(plain_client, name) as queue:
        for command, words in (
            (["dead", "redrive", name, "--all"], "2 dead letters redriven"),
            (["drain", name, "--yes"], "1 message put back"),
            (["purge", name, "--yes"], "3 messages deleted"),
            (["dead", "drop", name, "--all", "--yes"], "2 dead letters deleted"),
            (["cancel", name, "a"], "1 message canceled"),
        ):
            queue.push_many([{"id": "a"}, {"id": "b"}])
            if command[0] == "dead":
                queue.reject(*queue.pop_many(2))
            elif command[0] == "drain":
                queue.pop()
            elif command[0] == "cancel":
                queue.nack(queue.pop_many(2), delay=3600)
            else:
                queue.purge()
                queue.push_many([{"id": id} for id in "abc"])
            assert words in shown(*command, columns=80, ACKQ_REDIS_URL=url)
            queue.purge(dead=True)
        queue.push({"id": "a"})
        assert ackq("purge", name, "--yes").output == "1\n"


def test_push_at_a_time_once_with_an_id(ackq: Run, name: str, plain_client: redis.Redis) -> None:
    at = datetime.now() + timedelta(hours=1)
    ackq("push", name, "--at", at.isoformat(), '{"n": 1}')
    once = ("push", name, "--dedup", "order-7", "--id", "a-7", '{"n": 2}')
    assert ackq(*once).output == "a-7\n"
    again = ackq("push", name, "--dedup", "order-7", '{"n": 3}')
    assert again.stdout == "a-7\n"
    assert "not stored" in again.stderr
    with Queue(plain_client, name) as queue:
        due = queue.stats().next_event_in
        assert due is not None
        assert 3500 < due <= 3600
        message = queue.pop()
        assert message is not None
        assert message.body == b'{"id":"a-7","n": 2}'
        assert queue.pop() is None
        queue.purge()
    for wrong in (["--at", "soon", "{}"], ["--dedup", "k", "{}", "{}"], ["--id", "x", '{"id": 1}']):
        ackq("push", name, *wrong, code=2)
    for key in plain_client.scan_iter(f"{name}DEDUP:*"):
        plain_client.unlink(key)


def test_push_unique_and_to_the_front(ackq: Run, name: str, plain_client: redis.Redis) -> None:
    ackq("push", name, '{"id": "usual"}')
    unique = ("push", name, "--unique", "done", "--front")
    by_field = (*unique, "--unique-by", "n", "--unique-for", "60")
    assert ackq(*by_field, '{"n": 1}', '{"n": 2}').output == "n=1\nn=2\n"
    again = ackq(*by_field, input='{"n": 2}\n{"n": 3}\n')
    assert again.stdout == "1 message pushed\n"
    assert again.stderr == "ackq: not stored: n=2 is in the queue already\n"
    later = (*unique[:-1], "--delay", "60", "--replace")
    for body in ('{"id": "a", "v": 1}', '{"id": "a", "v": 2}'):
        assert ackq(*later, body).output == "a\n"
    with Queue(plain_client, name) as queue:
        assert [each.id for each in queue.peek()] == ["n=1", "n=2", "n=3", "usual"]
        assert queue.peek(1, "delayed")[0].body == b'{"id": "a", "v": 2}'
    for wrong in (
        ["--unique-by", "n", '{"n": 1}'],
        ["--replace", "--delay", "1", '{"id": "b"}'],
        ["--front", "--delay", "1", "{}"],
        ["--unique", "once", "{}"],
    ):
        assert ackq("push", name, *wrong, code=3 if "--front" in wrong else 2).stderr
    assert "leave out" in ackq(*by_field, '{"id": "b", "n": 1}', code=3).stderr


def test_a_dead_letter_whose_id_is_queued_is_reported(
    ackq: Run, name: str, plain_client: redis.Redis
) -> None:
    with Queue(plain_client, name) as queue:
        queue.push({"id": "a"}, unique="done")
        message = queue.pop()
        assert message is not None
        queue.reject(message)
        queue.push({"id": "a"}, unique="done")
        (letter,) = queue.dead_letters()
    for some in (["--all"], [letter.entry]):
        refused = ackq("dead", "redrive", name, *some)
        assert refused.stdout == "0 dead letters redriven\n" or refused.stdout == "0\n"
        assert f"{letter.entry} stays" in refused.stderr
        assert "--force" in refused.stderr
    forced = ackq("dead", "redrive", name, "--all", "--force")
    assert "stays" not in forced.stderr
    with Queue(plain_client, name) as queue:
        assert queue.stats().ready == 2


def test_a_message_that_always_fails_is_logged_once(
    plain_client: redis.Redis, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Queue(plain_client, name) as queue, Queue(plain_client, name, max_receives=50) as bounded:
        for used, logged in ((queue, 1), (bounded, 0)):
            used.push({"id": "poison"})
            caplog.clear()
            for _ in range(take.POISON + 3):
                message = used.pop(timeout=5)
                assert message is not None
                used.nack(message, delay=0)
            assert len([each for each in caplog.messages if "circulates" in each]) == logged
            used.purge()


def test_ctrl_c_while_modules_are_loaded_is_quiet() -> None:
    code = (
        "import builtins, os, signal, _ackq_command\n"
        "load = builtins.__import__\n"
        "def interrupted(name, *args, **kwargs):\n"
        "    if name == 'redis': os.kill(os.getpid(), signal.SIGINT)\n"
        "    return load(name, *args, **kwargs)\n"
        "builtins.__import__ = interrupted\n"
        "_ackq_command.main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (130, "")
