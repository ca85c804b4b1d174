"""What a user reads if the server, the URL, the folder or an argument is wrong: what to do."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import click.testing
import pytest
import redis

from ackq import InvalidMessage, MessageTooLarge, Queue
from ackq.cli import main
from tests.servers.private import private_server

from .conftest import Run

#: A prepared server, the end of the URL that a user gives, and what the error says to do.
SERVERS = {
    "a key that the user may not use": ("narrow:pw@", "", "ackq acl QUEUE"),
    "no right to run scripts": ("plain:pw@", "", "ackq acl QUEUE"),
    "no such database": ("", "/99", "a database that this server does not have"),
    "an unknown option": ("", "/0?sokcet_timeout=1", "no option 'sokcet_timeout'"),
    "an unknown host": ("", "", "check the host in the URL"),
    "a full server": ("", "", "raise maxmemory"),
    "a replica": ("", "", "use the URL of its primary"),
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    with private_server(tmp_path_factory.mktemp("redis")) as server:
        client = redis.Redis.from_url(server.url)
        client.execute_command("ACL", "SETUSER", "narrow", "on", ">pw", "~other*", "+@all")
        client.execute_command("ACL", "SETUSER", "plain", "on", ">pw", "~*", "+@all", "-evalsha")
        yield client


@pytest.mark.parametrize("case", SERVERS)
def test_an_error_of_the_server_says_what_to_do(case: str, address: redis.Redis) -> None:
    login, rest, advice = SERVERS[case]
    settings = address.get_connection_kwargs()
    at = "nowhere.invalid" if "host" in case else f"{settings['host']}:{settings['port']}"
    if case == "a full server":
        address.config_set("maxmemory", 1)
    if case == "a replica":
        address.replicaof("127.0.0.1", "1")
    command = ["push", "--url", f"redis://{login}{at}{rest}", "jobs", "{}"]
    if case == "no right to run scripts":
        command = ["pop", *command[1:-1]]
    try:
        result = click.testing.CliRunner().invoke(main, command, catch_exceptions=False)
    finally:
        address.replicaof("NO", "ONE")
        address.config_set("maxmemory", 0)
    assert result.exit_code in (3, 4)
    assert advice in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("ACKQ_REDIS_URL", raising=False)
    monkeypatch.setenv("ACKQ_HOME", str(tmp_path / "file" / "data"))
    result = click.testing.CliRunner().invoke(main, ["stats", "jobs"], catch_exceptions=False)
    assert (result.exit_code, "set ACKQ_HOME" in result.stderr) == (3, True)


def test_an_option_before_the_command(ackq: Run) -> None:
    assert "ackq stats --url" in ackq("--url", "redis://h", "stats", "jobs", code=2).stderr


def test_an_empty_answer_says_so(ackq: Run, name: str) -> None:
    for command in (("peek", name), ("dead", "list", name), ("delayed", "list", name)):
        result = ackq(*command)
        assert (result.stdout, result.stderr) == ("", "ackq: nothing to show\n")
    result = ackq("attention", name, "--watch", "0")
    assert (result.stdout, result.stderr) == ("", "ackq: nothing needs a person now\n")


@pytest.mark.parametrize(
    ("text", "seconds"), [("0.5", 0.5), ("500ms", 0.5), ("5m", 300), ("1.5h", 5400), ("2d", 172800)]
)
def test_a_duration_may_have_a_unit(
    ackq: Run, plain_client: redis.Redis, name: str, text: str, seconds: float
) -> None:
    ackq("push", name, "{}", "--delay", text)
    due = Queue(plain_client, name).stats().next_event_in
    assert due is not None
    assert seconds - 10 < due <= seconds


@pytest.mark.parametrize("text", ["5x", "m", "", "5 min", "-1m", "nan"])
def test_no_duration(ackq: Run, name: str, text: str) -> None:
    assert "--delay" in ackq("push", name, "{}", "--delay", text, code=2).stderr


@pytest.mark.parametrize("way", ["argument", "raw", "line", "dedup"])
def test_no_message_is_pushed_that_consumers_would_not_deliver(
    ackq: Run, name: str, way: str
) -> None:
    long = '{"id":"a","text":"%s"}' % ("x" * 100)
    given = {"raw": ("--raw", long), "dedup": ("--dedup", "a", long), "argument": (long,)}
    result = ackq(
        *("push", name, "--max-body", "100", *given.get(way, ())), code=3, input=f"{long}\n"
    )
    assert "over the limit of 100" in result.stderr
    assert ackq("peek", name).stdout == ""


def test_push_many_names_the_position(plain_client: redis.Redis, name: str) -> None:
    queue = Queue(plain_client, name, max_body_bytes=100)
    good = [{"n": n} for n in range(100)]
    with pytest.raises(InvalidMessage, match=r"^messages\[100\]: a message is"):
        queue.push_many([*good, 5])  # type: ignore[list-item]
    with pytest.raises(MessageTooLarge, match=r"^messages\[100\]: message 'a' is"):
        queue.push_many([*good, {"id": "a", "text": "x" * 100}])
    with pytest.raises(MessageTooLarge, match=r"^messages\[1\]: "):
        queue.push_many([b"x", b"x" * 101])
    assert queue.stats().ready == 0


def test_pickling_says_what_to_pass(plain_client: redis.Redis, name: str) -> None:
    with pytest.raises(TypeError, match=r"pass the URL and the name, and call Queue\.from_url"):
        pickle.dumps(Queue(plain_client, name))
