"""Each command, in this process."""

import json
import socket
from base64 import b64decode
from pathlib import Path

import pytest
import redis

from ackq import Queue
from ackq.cli import COMMANDS, GROUPS, delayed
from ackq.cli.push import completed
from ackq.cli.receipts import key_from_text, key_to_text
from tests.cli.conftest import Run

# --- push -------------------------------------------------------------------------


def test_push_prints_the_ids(ackq: Run, name: str, plain_client: redis.Redis) -> None:
    result = ackq("push", name, '{"id": "a", "n": 1}', '{"id":7}', '{"n":2}')
    first, second, drawn = result.output.split()
    assert (first, second) == ("a", "7")
    assert plain_client.lrange(name, 0, -1) == [
        b'{"id":"%s","n":2}' % drawn.encode(),
        b'{"id":7}',
        b'{"id": "a", "n": 1}',
    ]


def test_push_reads_lines_from_stdin_and_from_a_file(
    ackq: Run, name: str, tmp_path: Path, plain_client: redis.Redis
) -> None:
    ackq("push", name, input='{"id":1}\r\n\n{"id":2}')
    (tmp_path / "lines").write_text('{"id":3}\n')
    ackq("push", name, "--file", str(tmp_path / "lines"))
    assert plain_client.lrange(name, 0, -1) == [b'{"id":3}', b'{"id":2}', b'{"id":1}']


def test_push_raw_takes_anything(ackq: Run, name: str, plain_client: redis.Redis) -> None:
    ackq("push", name, "--raw", input=b"\xff\n\nplain\n")
    assert plain_client.lrange(name, 0, -1) == [b"plain", b"", b"\xff"]


@pytest.mark.parametrize("line", ["{", "[1]", '"a"', '{"id":null}', '{"id":1.5}', '{"id":""}'])
def test_a_line_that_is_no_message_is_named_and_not_pushed(
    ackq: Run, name: str, plain_client: redis.Redis, line: str
) -> None:
    result = ackq("push", name, input=f'{{"id":1}}\n{line}\n', code=3)
    first, second = result.stderr.splitlines()
    assert first == "ackq: 0 lines pushed"
    assert second.startswith("ackq: line or argument 2: ")
    assert ("this is not JSON" in second) is (line == "{")
    assert not plain_client.exists(name)


def test_an_object_without_an_id_keeps_its_every_byte() -> None:
    body = b' {"big": 123456789012345678901234567890, "x":1.0 }'
    given = completed(body)
    assert given.startswith(b'{"id":"')
    assert given.endswith(b',"big": 123456789012345678901234567890, "x":1.0 }')
    assert json.loads(completed(b"{}")).keys() == {"id"}
    assert json.loads(completed(b"{ }")).keys() == {"id"}
    dated = completed(body, "made")
    assert dated.startswith(given[:7])
    assert b',"big": 123456789012345678901234567890, "x":1.0 ,"made":"' in dated
    assert json.loads(completed(b"{}", "made")).keys() == {"id", "made"}
    assert completed(b'{"id":1,"made":null}', "made") == b'{"id":1,"made":null}'


# --- pop and ack ------------------------------------------------------------------


def test_pop_prints_bodies_and_settles_only_if_asked(
    ackq: Run, name: str, plain_client: redis.Redis
) -> None:
    ackq("push", name, '{"id":1}', '{"id":2}', '{"id":3}')
    assert ackq("pop", name).output == '{"id":1}\n'
    assert ackq("pop", name, "-n", "5", "--ack").output == '{"id":2}\n{"id":3}\n'
    assert ackq("pop", name, "-n", "5", "--ack", code=1).output == ""
    assert plain_client.zrange(f"{name}BACKUP", 0, -1) == [b"1"]


def test_pop_waits_for_a_lease_to_end(ackq: Run, name: str) -> None:
    ackq("push", name, '{"id":1}')
    ackq("pop", name, "--lease", "0.2")
    assert ackq("pop", name, "--timeout", "5").output == '{"id":1}\n'


def test_what_pop_printed_as_json_can_be_acked(ackq: Run, name: str) -> None:
    ackq("push", name, "--raw", '{"id":"a b%/é"}', "no id", '{"id":"x"}', '{"id":"x"}')
    lines = ackq("pop", name, "-n", "9", "--json").output.splitlines()
    popped = [json.loads(line) for line in lines]
    assert [each["id"] for each in popped][::2] == ["a b%/é", "x"]
    assert [each["receive_count"] for each in popped] == [1] * 4
    pairs = [str(value) for each in popped for value in (each["key"], each["receipt"])]
    assert not any("\0" in pair for pair in pairs)
    assert ackq("ack", name, *pairs).output == "4\n"
    ackq("ack", name, *pairs, code=3)


def test_bytes_that_are_no_text_are_shown_in_base64(ackq: Run, name: str) -> None:
    ackq("push", name, "--raw", input=b"\xff\xfe")
    popped = json.loads(ackq("pop", name, "--json").output)
    assert b64decode(popped["body_base64"]) == b"\xff\xfe"


# --- reading ----------------------------------------------------------------------


def test_all_delayed_messages_are_run_or_canceled_page_by_page(
    ackq: Run, name: str, url: str, plain_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delayed, "PAGE", 3)
    with Queue.from_url(url, name) as queue:
        queue.push_many([{"id": str(number)} for number in range(8)], delay=600)
        # A key without a body is left alone, and does not keep the others back.
        plain_client.zadd(f"{name}DELAYED", {"no body": 8e15 - 1})
        plain_client.hdel(f"{name}CONTEXT", "0", "1", "2", "3")
        assert "use --yes" in ackq("delayed", "cancel", name, "--all", code=2).output
        assert queue.stats().delayed == 9
        assert ackq("delayed", "cancel", name, "--all", "--yes").output == "4\n"
        assert (queue.stats().delayed, queue.stats().dead) == (5, 4)
        queue.push_many([{"id": f"b{number}"} for number in range(4)], delay=600)
        assert ackq("delayed", "run", name, "--all", "--yes").output == "9\n"
        assert queue.stats().delayed == 0
        assert ackq("delayed", "run", name, "--all", "--yes").output == "0\n"
        ackq("delayed", "run", name, "--all", "--id", "a", code=2)
        ackq("delayed", "cancel", name, code=2)


def test_audit_finds_and_repairs(ackq: Run, name: str, plain_client: redis.Redis) -> None:
    assert "sound" in ackq("audit", name).output
    plain_client.hset(f"{name}CONTEXT", "orphan", '{"id":"orphan"}')
    assert "FOUND: " in ackq("audit", name, code=1).output
    assert json.loads(ackq("audit", name, "--json", code=1).output)["sound"] is False
    assert "repaired: " in ackq("audit", name, "--repair").output
    assert json.loads(ackq("audit", name, "--json").output)["sound"] is True


# --- how it fails -----------------------------------------------------------------


def test_every_command_is_listed_and_explained(ackq: Run) -> None:
    listing = ackq("--help").output
    assert "Exit codes" in listing
    assert all(f"{title}:" in listing for title in GROUPS)
    assert list(COMMANDS) == [name for group in GROUPS.values() for name in group]
    for command in COMMANDS:
        assert command in listing
        assert ackq(command, "--help").output.count("\n") > 5


@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"],
        ["pop"],
        ["pop", "q", "-n", "0"],
        ["pop", "q", "--wait", "-1"],
        ["pop", "q", "--wait", "nan"],
        ["pop", "q", "--lease", "-5"],
        ["extend", "q", "key", "1", "--lease", "-5"],
        ["move", "q", "r", "--lease", "-5"],
        ["sharded", "pop", "q", "--shards", "2", "--lease", "-5"],
        ["ack", "q", "key"],
        ["ack", "q", "key", "not-a-receipt"],
        ["push", "q", "{}", "--file", "-"],
        ["mark", " "],
        ["attention", "--limit", "older=1"],
        ["attention", "--limit", "oldest=soon"],
        ["nack", "q", "key"],
        ["nack", "q", "key", "1", "--release", "--delay", "1"],
        ["extend", "q", "key", "1.5"],
        ["dead", "redrive", "q"],
        ["dead", "redrive", "q", "1-0", "--all"],
        ["dead", "drop", "q"],
        ["dead", "show", "q"],
        ["dead", "show", "q", "foo"],
        ["dead", "redrive", "q", "17"],
        ["dead", "drop", "q", "17-0", "17-x"],
        ["move", "a", "b", "--skip", "1"],
        ["push", "q", "{}", "--skip", "1"],
        ["push", "q", "{}", "--ids"],
        ["schedules", "put", "q", "s", "{", "--every", "1"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_code_2(ackq: Run, args: list[str]) -> None:
    ackq(*args, code=2)


def test_an_error_is_one_line_without_passwords(ackq: Run, name: str) -> None:
    result = ackq("stats", f"{name}BACKUP", code=3)
    assert result.stderr.startswith("ackq: queue name ")
    result = ackq("stats", name, "--url", "redis://me:canary@[", code=3)
    assert "canary" not in result.stderr
    result = ackq("stats", name, "--url", "redis://me:canary@127.0.0.1:1", code=4)
    assert "canary" not in result.output
    assert result.stderr.count("\n") == 1


def test_a_key_of_another_type_is_code_3(ackq: Run, name: str, plain_client: redis.Redis) -> None:
    plain_client.set(name, "text")
    assert "not a list" in ackq("pop", name, code=3).stderr


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (["stat"], "stats"),
        (["pusj", "jobs"], "push"),
        (["dead", "lst", "jobs"], "list"),
        (["rsmq", "recieve", "q"], "receive"),
    ],
)
def test_a_misspelt_command_brings_a_suggestion(ackq: Run, args: list[str], meant: str) -> None:
    assert f" Did you mean {meant}" in ackq(*args, code=2).stderr
    assert "Did you mean" not in ackq("xyzzy", code=2).stderr


def test_a_server_that_never_answers_is_code_4(ackq: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0?socket_timeout=0.2"
        done = ackq("stats", "jobs", "--url", url, code=4)
    assert done.stderr.startswith("ackq: Timeout ")


def test_a_database_is_a_number(ackq: Run) -> None:
    done = ackq("stats", "jobs", "--url", "redis://localhost:1/abc", code=3)
    assert "the database must be a number" in done.stderr
    done = ackq("stats", "jobs", "--url", "redis://u:p@ss/w:rd@localhost:1/0", code=3)
    assert "w:rd" not in done.stderr


@pytest.mark.parametrize("key", [b"50%41", b"%", b"%25", b"\xff\x00%", "é".encode(), b"a b%"])
def test_a_key_of_any_bytes_settles_its_message(
    ackq: Run, name: str, plain_client: redis.Redis, key: bytes
) -> None:
    assert key_to_text(key).isprintable()
    assert key_from_text(key_to_text(key)) == key
    with Queue(plain_client, name) as queue:
        body = b'{"id":"' + key + b'"}' if b"\x00" not in key else b"no id"
        queue.push(body)
        # A careless decoding would make two keys one. Only the right one is settled.
        queue.push(b'{"id":"50A"}')
        row, other = (
            json.loads(line) for line in ackq("pop", name, "-n", "2", "--json").output.splitlines()
        )
        assert ackq("ack", name, row["key"], str(row["receipt"])).output == "1\n"
        (left,) = queue.peek(9, "in_flight")
        assert left.id == other["id"] == "50A"


def test_drain_puts_everything_back_for_a_bare_rpop(
    ackq: Run, name: str, plain_client: redis.Redis
) -> None:
    bodies = [b'{"id":"a"}', b'{"id":"b"}', b'{"id":"c"}']
    with Queue(plain_client, name, visibility_timeout=600) as queue:
        queue.push_many(bodies[:2])
        queue.pop()
        queue.push(bodies[2], delay=600)
    assert "cannot ask for confirmation" in ackq("drain", name, code=2).stderr
    assert plain_client.llen(name) == 1
    assert ackq("drain", name, "--yes").output == "2\n"
    assert sorted(plain_client.rpop(name, 9)) == bodies  # type: ignore[arg-type]
    assert not plain_client.exists(f"{name}BACKUP", f"{name}CONTEXT", f"{name}DELAYED")
