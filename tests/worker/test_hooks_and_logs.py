"""A worker's hooks and logs."""

import inspect
import json
import logging
import re
from typing import Any

import pytest
import redis

import ackq
from ackq.core.failure import describe
from ackq.errors import ConfigurationError
from ackq.worker import Again, Backoff, Hooks, Reject, Release
from ackq.worker import hooks as worker_hooks
from ackq.worker.failures import text_of
from ackq.worker.logs import JsonFormatter, TextFormatter, reason_of
from tests.waiting import wait_until
from tests.worker.conftest import Rig

from .conftest import settled


class Notes(Hooks):
    def __init__(self) -> None:
        self.notes: list[tuple[Any, ...]] = []

    def before(self, message: ackq.Message) -> None:
        self.notes.append(("before", message.id))

    def after(self, message: ackq.Message, outcome: str, seconds: float) -> None:
        assert 0 <= seconds < 10
        self.notes.append(("after", message.id, outcome))

    def error(self, message: ackq.Message, error: BaseException) -> None:
        self.notes.append(("error", message.id, str(error)))


class Broken(Hooks):
    def before(self, message: ackq.Message) -> None:
        raise SystemExit("a broken hook")

    after = before  # type: ignore[assignment]


def test_hooks_run_for_every_message_and_may_raise(rig: Rig) -> None:
    queue = rig.queue(2, max_receives=1)

    def fail(message: ackq.Message) -> None:
        if message.id == "m1":
            raise ValueError("why")

    rig.handler.behave = fail
    notes = Notes()
    rig.work(queue, hooks=[Broken(), notes], concurrency=1)
    wait_until(lambda: settled(queue), "both")
    assert notes.notes == [
        ("before", "m0"),
        ("after", "m0", "ack"),
        ("before", "m1"),
        ("error", "m1", "why"),
        ("after", "m1", "nack"),
    ]


class Deaths(Hooks):
    def __init__(self) -> None:
        self.ids: list[str] = []

    def dead(self, message: ackq.Message) -> None:
        self.ids.append(message.id)


def test_a_dead_letter_knows_why_its_handler_failed(
    caplog: pytest.LogCaptureFixture, rig: Rig
) -> None:
    queue = rig.queue(5, max_receives=2)

    def fail(message: ackq.Message) -> None:
        if message.id == "m0":
            raise KeyError("card")
        try:
            raise ValueError("why")
        except ValueError:
            if message.id == "m1":
                raise Reject("no good")  # noqa: B904 - the error is its context
            if message.id == "m3":
                raise Reject("no good") from None
            if message.id == "m4":
                raise Reject("no good") from OSError("cause")
            raise Again(delay=0)  # noqa: B904

    deaths = Deaths()
    rig.work(queue, fail, hooks=[deaths], backoff=Backoff(base=0, jitter=0))
    wait_until(lambda: len(deaths.ids) == 5, "all dead")
    letters = {letter.id: letter for letter in queue.dead_letters()}
    found = {
        id: [(error.attempt, error.type, error.text) for error in letter.errors]
        for id, letter in letters.items()
    }
    assert found == {
        "m0": [(1, "KeyError", "'card'"), (2, "KeyError", "'card'")],
        "m1": [(1, "ValueError", "why")],
        "m2": [(1, "ValueError", "why"), (2, "ValueError", "why")],
        "m3": [],
        "m4": [(1, "OSError", "cause")],
    }
    letters.pop("m4")  # its cause was raised nowhere
    assert all(
        error.place.startswith(f"{__file__}:") and error.place.endswith(" in fail")
        for letter in letters.values()
        for error in letter.errors
    )
    dead: list[Any] = [record for record in caplog.records if record.message.startswith("dead ")]
    assert {each.message_id: each.reason for each in dead} == {
        "m0": "max receives",
        "m1": "no good",
        "m2": "max receives",
        "m3": "no good",
        "m4": "no good",
    }
    assert letters["m1"].cause.startswith("ValueError at ")


@pytest.mark.parametrize("groups", [None, ackq.Groups("customer")])
def test_a_verdict_for_a_group_is_an_ordinary_delay_without_one(
    caplog: pytest.LogCaptureFixture, rig: Rig, groups: ackq.Groups | None
) -> None:
    queue = rig.queue(1, groups=groups)
    rig.work(queue, lambda message: Release(60, group=True))
    wait_until(lambda: queue.stats().delayed == 1, "the delay")
    logged = "has no groups: leave out group=True, which only delays here" in caplog.text
    assert logged == (groups is None)


def test_messages_that_fail_together_keep_their_own_errors(rig: Rig) -> None:
    queue = rig.queue(40, max_receives=1)

    def fail(message: ackq.Message) -> None:
        raise ValueError(message.id)

    rig.work(queue, fail, concurrency=20)
    wait_until(lambda: queue.stats().dead == 40, "all dead")
    assert all(letter.errors[0].text == letter.id for letter in queue.dead_letters())


def test_a_queue_that_records_nothing_records_nothing(rig: Rig) -> None:
    queue = rig.queue(1, max_receives=1, record_errors="none")

    def fail(message: ackq.Message) -> None:
        raise ValueError("secret")

    rig.work(queue, fail)
    wait_until(lambda: queue.stats().dead == 1, "the dead letter")
    assert queue.dead_letters()[0].errors == ()


def failures(caplog: pytest.LogCaptureFixture, count: int) -> list[Any]:
    def found() -> list[Any]:
        return [record for record in caplog.records if record.message.startswith("failed")]

    wait_until(lambda: len(found()) >= count, f"{count} failures")
    return found()


def parsed(text: str) -> Any:
    return json.loads(text)  # the user's innermost line


def test_a_failure_is_logged_with_the_user_s_line_and_what_comes_next(
    caplog: pytest.LogCaptureFixture, rig: Rig
) -> None:
    queue = rig.queue_of(max_receives=2)
    queue.push({"id": "m0"})
    rig.work(queue, lambda message: parsed("{"), backoff=Backoff(base=0.01))
    wait_until(lambda: settled(queue), "the dead letter")
    first, second = failures(caplog, 2)
    line = inspect.getsourcelines(parsed)[1] + 1
    assert first.at == f"{__file__}:{line}"
    assert first.error.startswith("JSONDecodeError: Expecting property name")
    assert re.fullmatch(r"retry 1 of 1 in 0\.0\d+ s", first.outlook)
    assert second.outlook == "dead after 2"
    assert all(str(part) in first.message for part in (first.at, first.error, first.outlook))
    assert first.exc_info is None


def test_a_handler_that_cannot_be_called_is_named_by_where_it_is_defined(
    caplog: pytest.LogCaptureFixture, rig: Rig
) -> None:
    queue = rig.queue(1)

    def no_argument() -> None:
        """Is never entered."""

    rig.work(queue, no_argument)
    (record,) = failures(caplog, 1)
    assert record.at == f"{__file__}:{no_argument.__code__.co_firstlineno}"
    assert record.error.startswith("TypeError: ")
    assert record.outlook.startswith("retry 1 ")


@pytest.mark.parametrize("detail", ["type", "text", "traceback"])
def test_how_much_of_an_error_is_logged_is_chosen(
    caplog: pytest.LogCaptureFixture, detail: str, rig: Rig
) -> None:
    queue = rig.queue_of(max_receives=1)
    queue.push({"id": "m0", "password": "hunter2"})

    def fail(message: ackq.Message) -> None:
        raise ValueError(f"cannot read {message.body!r}")

    with caplog.at_level(logging.DEBUG, "ackq.worker"):
        rig.work(queue, fail, log_errors=detail)
        wait_until(lambda: settled(queue), "the failure")
    (record,) = failures(caplog, 1)
    assert record.message_id == "m0"
    assert record.size > 20
    assert record.error.startswith("ValueError")
    assert ("hunter2" in caplog.text) == (detail != "type")
    shown = [TextFormatter().format(record), json.loads(JsonFormatter().format(record))]
    assert ("Traceback" in shown[0]) == ("traceback" in shown[1]) == (detail == "traceback")


def test_no_message_forges_a_line_of_a_log(caplog: pytest.LogCaptureFixture, rig: Rig) -> None:
    queue = rig.queue_of(max_receives=1)
    evil = "1\n2026-01-01 00:00:00 INFO all is well\x1b]52;c;aGk=\x07\x9b31m\u202e"
    queue.push({"id": evil})

    def fail(message: ackq.Message) -> None:
        raise ValueError(message.id)

    rig.work(queue, fail, log_errors="traceback")
    wait_until(lambda: settled(queue), "the failure")
    (record,) = failures(caplog, 1)
    assert record.message_id == evil
    first, *others = TextFormatter().format(record).split("\n")
    assert r"1\n2026-01-01" in first
    assert all(other.startswith("  ") for other in others)
    assert others
    line = JsonFormatter().format(record)
    assert json.loads(line)["message_id"] == evil
    for text in (first, *others, line):
        assert text.isprintable()


def test_a_long_text_is_cropped_and_one_that_cannot_be_read_harms_nothing() -> None:
    class Unreadable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def text(error: Exception) -> str:
        return text_of(describe(error))

    assert text(ValueError("x" * 501)) == "ValueError: " + "x" * 500 + "…"
    assert text(ValueError("x" * 500)) == "ValueError: " + "x" * 500
    assert text(Unreadable()) == "Unreadable: (its text cannot be read)"
    assert text(KeyError()) == "KeyError"
    assert text(OSError("redis://me:c4n4ry@there")) == "OSError: redis://***@there"


def test_no_other_detail_of_an_error_can_be_asked_for(rig: Rig) -> None:
    with pytest.raises(ConfigurationError, match="log_errors"):
        rig.work(rig.queue_of(), print, start=False, log_errors="everything")


def test_what_a_server_says_is_logged_without_its_password() -> None:
    error = redis.ConnectionError("cannot reach redis://me:c4n4ry@somewhere:6379/0")
    assert reason_of(error) == "ConnectionError: cannot reach redis://***@somewhere:6379/0"


def test_a_hook_that_fails_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Hooks):
        def dead(self, message: ackq.Message) -> None:
            raise KeyError("secret")

    worker_hooks.call([Failing(), Hooks()], "dead", ackq.Message("q", b"a", b"{}", 1, 1))
    assert caplog.messages == ["hook Failing.dead failed: KeyError"]
