"""``ackq work module:tasks`` handles all queues of the tasks; ``ackq tasks`` describes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest
from click.testing import CliRunner

from ackq import Queue
from ackq.cli import main
from ackq.tasks import Tasks
from ackq.tasks.schema import message_schema
from tests.process.commands import working
from tests.tasks import images
from tests.waiting import wait_until
from tests.worker.conftest import settled

MODULE = "tests.tasks.images"


def _run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["tasks", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_work_takes_every_queue_that_the_tasks_name(tmp_path: Path, url: str, token: str) -> None:
    with Queue.from_url(url, token) as queue, Queue.from_url(url, f"{token}-notes") as notes:
        queue.push({"task": "images.resize", "args": {"path": "again", "size": {"width": 5}}})
        notes.push({"task": "images.note", "args": {"text": "other"}})
        variables = {"TASKS_TOKEN": token}
        with working(tmp_path, url, f"{MODULE}:tasks", "--drain", variables=variables) as command:
            assert command.wait() == 0, command.log()
            events = command.events()
        assert notes.stats().ready == queue.stats().ready == 0
    assert [events[0]["event"], events[-1]["event"]] == ["enter", "leave"]
    (resized,) = command.events("resize")
    assert (resized["width"], resized["greeting"], resized["queue"]) == (5, "hello", token)
    assert sorted(event["text"] for event in command.events("note")) == ["again", "other"]


def test_asynchronous_tasks_work_too_and_a_chosen_queue_is_the_only_one(
    tmp_path: Path, url: str, token: str
) -> None:
    with Queue.from_url(url, token) as queue, Queue.from_url(url, f"{token}-b") as other:
        queue.push({"task": "web.fetch", "args": {"url": "no"}})
        other.push({"task": "web.fetch", "args": {"url": "yes"}})
        options = ("-q", other.name, "--drain", "--max-receives", "3")
        with working(tmp_path, url, f"{MODULE}:web", *options) as command:
            assert command.wait() == 0, command.log()
        assert [event["url"] for event in command.events("fetch")] == ["yes"]
        assert queue.stats().ready == 1


@pytest.mark.parametrize(
    ("task", "reason"),
    [("images.stuck", "max receives"), ("images.final", "not retried: TimeoutError")],
)
def test_a_stuck_task_is_killed_by_its_own_limit(
    tmp_path: Path, url: str, token: str, task: str, reason: str
) -> None:
    with Queue.from_url(url, token) as queue:
        queue.push({"task": task})
        options = ("--kill-after", "0.1", "--lease", "600")
        variables = {"TASKS_TOKEN": token}
        with working(tmp_path, url, f"{MODULE}:tasks", *options, variables=variables) as command:
            wait_until(lambda: queue.stats().dead, "the dead letter", 40)
            assert len(command.events("stuck")) == 1
        (letter,) = queue.dead_letters()
        assert (letter.receive_count, letter.reason) == (1, reason)
        assert "its process was killed" in letter.errors[-1].text


def test_a_stuck_batch_is_killed_and_all_of_it_is_counted(
    tmp_path: Path, url: str, token: str
) -> None:
    with Queue.from_url(url, f"{token}-rows") as queue:
        queue.push_many({"task": "images.store", "args": {"rows": number}} for number in range(2))
        options = ("--kill-after", "0.1", "--lease", "600", "--concurrency", "1")
        variables = {"TASKS_TOKEN": token}
        with working(tmp_path, url, f"{MODULE}:tasks", *options, variables=variables) as command:
            wait_until(lambda: settled(queue), "both rows, at their second delivery", 40)
        events = [(sorted(event["rows"]), event["counts"]) for event in command.events("store")]
        assert events == [([0, 1], [1, 1]), ([0, 1], [2, 2])]


def test_what_is_no_task_is_refused(tmp_path: Path, url: str) -> None:
    with working(tmp_path, url, f"{MODULE}:TOKEN") as command:
        assert command.wait() == 3
        assert "neither a function nor Tasks" in command.log()
    assert "is not an object of ackq.tasks" in _run("list", f"{MODULE}:TOKEN", code=3)
    assert "has no task 'x', only images.resize" in _run("schema", f"{MODULE}:tasks", "x", code=3)


def test_tasks_are_listed() -> None:
    lines = [line.split("\t") for line in _run("list", f"{MODULE}:tasks").splitlines()]
    assert lines[0][:2] == ["images.resize", images.TOKEN]
    assert lines[0][3:] == ["5", "30"]
    assert lines[1][:2] == ["images.note", f"{images.TOKEN}-notes"]
    listed = [json.loads(line) for line in _run("list", f"{MODULE}:web", "--json").splitlines()]
    assert listed[0]["arguments"] == "(url: 'str') -> 'None'"


def test_the_schema_of_a_task_describes_its_messages() -> None:
    schema = json.loads(_run("schema", f"{MODULE}:tasks", "images.resize"))
    assert schema["description"] == "Resize a picture."
    assert schema["required"] == ["task", "args"]
    members = schema["properties"]
    assert members["task"] == {"const": "images.resize"}
    arguments = members["args"]
    assert arguments["required"] == ["path", "size"]
    assert arguments["additionalProperties"] is False
    assert set(arguments["properties"]) == {"path", "size", "owner"}
    assert set(schema["$defs"]) == {"Size", "Address"}
    assert "$defs" not in arguments["properties"]["owner"]["anyOf"][0]
    assert schema["$defs"]["Size"]["properties"]["price"]["format"] == "decimal"
    schemas = json.loads(_run("schema", f"{MODULE}:tasks", "--cloudevent"))
    assert schemas["images.note"]["required"] == ["id", "specversion", "type", "source"]
    assert schemas["images.resize"]["required"][-1] == "data"


@pytest.mark.parametrize("source", [None, "//tests"])
def test_what_is_pushed_fits_the_schema(source: str | None, url: str, token: str) -> None:
    with Tasks(url, queue=token, source=source) as tasks:
        task = tasks.task(name="t")(_resize)
        task.push("a", images.Size(5), images.Owner(email="x", address=images.Address(street="y")))
        task.options(expires=5).push("a", size=images.Size(1))
        (definition,) = tasks.definitions
        schema: dict[str, Any] = message_schema(definition, cloudevent=source is not None)
        check = jsonschema.Draft202012Validator(schema)
        check.check_schema(schema)
        for peeked in tasks.queue().peek(2):
            check.validate(orjson.loads(peeked.body))
        wrong = {"task": "t", "args": {"path": 5}, "specversion": "1.0", "type": "t"}
        assert list(check.iter_errors({**wrong, "data": wrong["args"]}))
        unnamed = {**orjson.loads(peeked.body), "id": ""}
        assert check.is_valid(unnamed) == (source is None)  # an event needs an id


def _resize(path: str, size: images.Size, owner: images.Owner | None = None) -> None:
    """A task."""
