"""``ackq adopt``: what it prints, for people and for programs."""

import json

import pytest
import redis

from tests.cli.conftest import Run
from tests.cli.terminal import plain, shown


@pytest.fixture
def client(plain_client: redis.Redis, name: str) -> redis.Redis:
    """A client of the server that the command uses, which has the list and one beside it."""
    plain_client.rpush(name, *(b'{"id":%d}' % number for number in range(20)))
    plain_client.rpush(f"{name}:processing", "x")
    return plain_client


def test_findings_and_steps_are_printed(ackq: Run, client: redis.Redis, name: str) -> None:
    lines = [line.split("\t") for line in ackq("adopt", name, "--for", "0.1").stdout.splitlines()]
    found = {check: (verdict, text) for verdict, check, text in lines if verdict != "do"}
    assert found["list"][0] == "ok"
    assert found["ids"] == ("ok", "20 of 20 are JSON objects with an id")
    assert found["processing lists"] == ("warning", f"{name}:processing (1)")
    assert "persistence" in found
    steps = [text for verdict, _, text in lines if verdict == "do"]
    assert any(f"ackq recover {name} {name}:processing --dry-run" in step for step in steps)


def test_json_has_all_that_was_seen(ackq: Run, client: redis.Redis, name: str) -> None:
    found = json.loads(ackq("adopt", name, "--for", "0.1", "--json").stdout)
    assert (found["list"], found["kind"], found["sound"]) == (name, "list", True)
    assert found["traffic"]["lengths"] == [20, 20]
    assert found["sample"]["with_id"] == 20
    assert found["search"]["lists"] == {f"{name}:processing": 1}
    assert {each["check"] for each in found["findings"]} >= {"list", "pushes", "takes"}
    assert found["steps"]


def test_a_problem_is_exit_code_1(ackq: Run, client: redis.Redis, name: str) -> None:
    client.expire(name, 1000)
    assert "PERSIST" in ackq("adopt", name, "--for", "0", code=1).stdout
    client.set(f"{name}:text", "x")
    done = ackq("adopt", f"{name}:text", code=1)
    assert "problem\tlist\tthe key is a string, not a list" in done.stdout


def test_a_name_that_is_no_text_is_refused(ackq: Run) -> None:
    assert "is not valid Unicode" in ackq("adopt", "jobs\udcff", code=3).stderr


@pytest.mark.parametrize("columns", [80, 200])
def test_it_fits_the_terminal(client: redis.Redis, name: str, url: str, columns: int) -> None:
    lines = plain(shown("adopt", name, "--for", "0", "--url", url, columns=columns))
    assert all(len(line) <= columns for line in lines)
    assert "What to do" in lines
    assert lines[lines.index("What to do") + 1].startswith("1.  ")
