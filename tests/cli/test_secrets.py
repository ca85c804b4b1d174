"""A password given by --url or by the environment is in nothing that a command prints."""

from collections.abc import Iterator
from pathlib import Path

import click.testing
import pytest
import redis

from ackq import Queue
from ackq.cli import main
from ackq.errors import AckqError
from tests.servers import private_server

CANARY = "c4n4ry"

#: Each way to use a server.
COMMANDS = [
    ["push", "jobs", '{"id":"a"}'],
    ["pop", "jobs", "--json"],
    ["ack", "jobs", "a", "1"],
    ["nack", "jobs", "a", "1"],
    ["extend", "jobs", "a", "1"],
    ["stats", "jobs"],
    ["top"],
    ["top", "jobs", "--json"],
    ["peek", "jobs"],
    ["dead", "list", "jobs"],
    ["dead", "redrive", "jobs", "--all"],
    ["pause", "jobs"],
    ["resume", "jobs"],
    ["move", "jobs", "other"],
    ["move", "jobs", "jobs"],
    ["audit", "jobs"],
    ["purge", "jobs", "--yes"],
    ["doctor"],
    ["doctor", "--json"],
    ["scripts", "load"],
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with a password, and the password in it."""
    with private_server(tmp_path_factory.mktemp("guarded"), requirepass=CANARY) as server:
        yield f"redis://:{CANARY}@127.0.0.1:{server.port}/0"
        with redis.Redis.from_url(server.url, password=CANARY) as client:
            client.shutdown(nosave=True)


@pytest.mark.parametrize("wrong", ["", "wrong-"], ids=["right", "wrong"])
@pytest.mark.parametrize("place", ["option", "file", "environment"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_password_is_not_shown(
    url: str,
    command: list[str],
    place: str,
    wrong: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("ACKQ_HOME", str(tmp_path))
    given = url.replace(f":{CANARY}", f":{wrong}{CANARY}")
    monkeypatch.setenv("ACKQ_REDIS_URL", given if place == "environment" else "redis://nobody:1")
    path = tmp_path / "url"
    path.write_text(f"{given}\n")
    source = {"option": ["--url", given], "file": ["--url-file", str(path)], "environment": []}
    args = [*command, *source[place]]
    result = click.testing.CliRunner().invoke(main, args)
    assert isinstance(result.exception, SystemExit | None)
    assert result.exit_code in ((1, 3, 4) if wrong else (0, 1, 3))
    assert CANARY not in result.output
    assert CANARY not in click.testing.CliRunner().invoke(main, [*args, "--help"]).output


def test_a_url_file_holds_one_url(url: str, tmp_path: Path) -> None:
    path = tmp_path / "url"
    for text, args in ((" ", []), (f"{url} {url}", []), (url, ["--url", "redis://other"])):
        path.write_text(text)
        result = click.testing.CliRunner().invoke(
            main, ["stats", "jobs", "--url-file", str(path), *args]
        )
        assert result.exit_code == 2
        assert "url" in result.output
        assert CANARY not in result.output
    result = click.testing.CliRunner().invoke(main, ["peek", "jobs", "--url-file", "-"], url)
    assert result.exit_code == 0


def test_the_password_of_the_other_server_is_not_shown_either(url: str) -> None:
    result = click.testing.CliRunner().invoke(
        main, ["move", "jobs", "other", "--url", url, "--to", f"redis://:{CANARY}@127.0.0.1:1"]
    )
    assert result.exit_code in (0, 4)
    assert CANARY not in result.output


@pytest.mark.parametrize("error", [redis.ConnectionError, redis.ResponseError, AckqError])
def test_what_a_library_says_is_looked_through_once_more(
    url: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error(f"cannot talk to redis://me:{CANARY}@somewhere:6379/0")

    monkeypatch.setattr(Queue, "stats", fail)
    result = click.testing.CliRunner().invoke(main, ["stats", "jobs", "--url", url])
    assert result.exit_code in (3, 4)
    assert "redis://***@somewhere" in result.output
    assert CANARY not in result.output
