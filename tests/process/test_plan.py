"""The settings of ``ackq work`` reach the worker."""

import contextlib
import itertools
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from ackq import AsyncQueue, Queue
from ackq.config import QueueConfig
from ackq.delay import DelayQueue
from ackq.embedded import Server
from ackq.errors import ConfigurationError
from ackq.process import plan
from ackq.process.plan import Plan
from ackq.rsmq import RSMQ
from ackq.sharded import ShardedQueue
from ackq.topic import Topic
from ackq.worker import RateLimit
from tests.worker.conftest import Recorder

from .jobs import SCHEDULES, quick


def run_with_a_spy(asked: Plan, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the arguments that a plan makes its worker with."""
    made: dict[str, Any] = {}

    class Spy:
        cut_short = stopped_by_order = False

        def __init__(self, queues: Any, handler: Recorder, **settings: Any) -> None:
            made.update(settings, queues=queues, handler=handler)

        def handle_at_most(self, number: int) -> None:
            made["handle_at_most"] = number

        def run(self, *, drain: bool) -> None:
            made["drain"] = drain

    monkeypatch.setattr(plan, "Worker", Spy)
    monkeypatch.setattr(plan, "is_sharded", lambda client, name: name == "sharded")
    monkeypatch.setattr(plan, "check_workable", lambda client, name: None)
    monkeypatch.setattr(plan, "hides_list", lambda client, name: False)
    monkeypatch.setattr(plan, "recorded_groups", lambda url, name: {})
    monkeypatch.setattr(plan, "groups_of", lambda client, name: {})
    Plan.loads(asked.dumps()).run()
    return made


def test_every_setting_reaches_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Plan(
        handler="tests.process.jobs:quick",
        queues=("a=3", "b=1"),
        url="redis://127.0.0.1:1",
        concurrency=5,
        prefetch=7,
        lease=11.0,
        max_receives=13,
        max_body=37,
        time_limit=17.0,
        max_messages=1000,
        grace=19.0,
        rate="23/29",
        expiry_field="until",
        schedules="tests.process.jobs:SCHEDULES",
        health_port=0,
        health_host="127.0.0.2",
        stalled_after=31.0,
        drain=True,
        log_errors="type",
        name="mailer",
        heartbeat=3.0,
        record_errors="type",
        pop_from="left",
    )
    made = run_with_a_spy(asked, monkeypatch)
    queues = made.pop("queues")
    assert {queue.name: weight for queue, weight in queues.items()} == {"a": 3.0, "b": 1.0}
    for queue in queues:
        config = queue.config
        assert (config.visibility_timeout, config.max_receives) == (11.0, 13)
        assert (config.max_body_bytes, config.record_errors) == (37, "type")
        assert config.pop_from == "left"
    assert made.pop("hooks") == []
    health = made.pop("health")
    assert health.reason == ""
    assert health._endpoint == ("127.0.0.2", 0)
    assert made == {
        "handler": quick,
        "concurrency": 5,
        "prefetch": 7,
        "max_receives": 25,
        "time_limit": 17.0,
        "grace": 19.0,
        "rate_limit": RateLimit(23, 29.0),
        "expiry_field": "until",
        "schedules": SCHEDULES,
        "drain": True,
        "handle_at_most": 1000,
        "log_errors": "type",
        "name": "mailer",
        "heartbeat": 3.0,
        "history": True,
    }


@pytest.mark.parametrize(
    ("options", "declared", "other", "limit"),
    [
        ({}, QueueConfig(7, 3, "back", 99), QueueConfig(), 25),
        (
            {"lease": 5, "max_receives": 9, "max_body": 7},
            QueueConfig(5, 9, "back", 7),
            QueueConfig(5, 9, "front", 7),
            25,
        ),
        ({"max_receives": 0}, QueueConfig(7, None, "back", 99), QueueConfig(), None),
    ],
    ids=["none", "all", "no limit"],
)
def test_a_queue_in_the_module_keeps_its_settings_unless_an_option_says_otherwise(
    options: Any,
    declared: QueueConfig,
    other: QueueConfig,
    limit: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Plan(
        "tests.process.jobs:quick", ("declared", "other"), "redis://127.0.0.1:1", **options
    )
    made = run_with_a_spy(asked, monkeypatch)
    assert [queue.config for queue in made["queues"]] == [declared, other]
    assert made["max_receives"] == limit


def test_a_sharded_queue_in_the_module_keeps_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Plan("tests.process.jobs:quick", ("sharded",), "redis://127.0.0.1:1")
    (queue,) = run_with_a_spy(asked, monkeypatch)["queues"]
    assert (type(queue), queue.config) == (ShardedQueue, QueueConfig(8, 4))


@pytest.mark.parametrize(
    ("declared", "expected"),
    [(("mails",), "mails"), (("mails", "mails"), "mails"), ((), "jobs")],
    ids=["one", "one, declared for threads and for tasks", "none"],
)
def test_without_a_name_the_only_queue_of_the_module_is_worked_on(
    declared: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _module(monkeypatch, declared):
        made = run_with_a_spy(Plan("mailtasks:handle", (), "redis://127.0.0.1:1"), monkeypatch)
    (queue,) = made["queues"]
    assert queue.name == expected
    assert queue.config.visibility_timeout == (7 if declared else 30)


def test_without_a_name_several_queues_of_the_module_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        _module(monkeypatch, ("mails", "bills")),
        pytest.raises(
            ConfigurationError, match=r"mailtasks:handle has 2 queues, 'bills' and 'mails'.* -q"
        ),
    ):
        Plan("mailtasks:handle", (), "redis://127.0.0.1:1").run()


@contextlib.contextmanager
def _module(monkeypatch: pytest.MonkeyPatch, queues: tuple[str, ...]) -> Iterator[None]:
    """Import as ``mailtasks`` a module with a handler and with these queues."""
    module: Any = types.ModuleType("mailtasks")
    module.handle = quick
    kinds = itertools.cycle((Queue, AsyncQueue))
    clients: Any = itertools.cycle((redis.Redis(), redis.asyncio.Redis()))
    for number, name in enumerate(queues):
        made = next(kinds)(next(clients), name, visibility_timeout=7)
        setattr(module, f"queue{number}", made)
    monkeypatch.setitem(sys.modules, "mailtasks", module)
    yield


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        *(({"handler": path}, path) for path in ("nocolon", ".:handle", "nowhere", "tests:")),
        ({"handler": "tests.worker.absent:x"}, "tests.worker.absent"),
        ({"handler": "os:sep"}, "os:sep"),
        ({"handler": "tests.process.jobs:SCHEDULES"}, "is neither a function nor Tasks"),
        ({"queues": ("a=x",)}, "a=x"),
        ({"queues": ("a=1", "b")}, "give every queue a weight"),
        ({"rate": "many"}, "many"),
        ({"rate": "1/0"}, "write count/seconds"),
        ({"schedules": "tests.process.jobs:absent"}, "has no 'absent'"),
        ({"schedules": "tests.process.jobs:quick"}, "must be a Schedule"),
        ({"schedules": "tests.process.jobs:__name__"}, "must be a Schedule"),
        ({"max_body": 0}, "max_body"),
        ({"kill_after": 1.0}, "set that as well"),
        ({"health_file": "/nowhere/healthy"}, "made in /nowhere"),
    ],
    ids=str,
)
def test_what_cannot_be_planned_is_said(
    settings: dict[str, Any], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ackq.worker")
    usual = {"handler": "tests.process.jobs:quick", "queues": ("a",), "url": "redis://127.0.0.1:1"}
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        Plan(**{**usual, **settings}).run()
    assert "working on" not in caplog.text


@pytest.mark.parametrize(
    ("source", "reason", "line"),
    [
        ("\nimport no_such_dependency", "No module named 'no_such_dependency'", 2),
        ("x = 1\ndef handle(message) pass", "SyntaxError", 2),
        ("def fail():\n    1 / 0\nfail()", "ZeroDivisionError: division by zero", 2),
        ("import sys\nsys.exit('not\\nnow')", "SystemExit: not now", 2),
    ],
    ids=["dependency", "syntax", "error", "exit"],
)
@pytest.mark.parametrize("named", ["handler", "schedules"])
def test_a_module_that_cannot_be_imported_is_one_line_with_the_place(
    source: str,
    reason: str,
    line: int,
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "broken_tasks.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    usual = Plan("tests.process.jobs:quick", ("a",), url="redis://127.0.0.1:1")
    with pytest.raises(ConfigurationError) as caught:
        usual.replaced(**{named: "broken_tasks:handle"}).run()
    text = str(caught.value)
    assert text.startswith("broken_tasks:handle: ")
    assert reason in text
    assert text.endswith(f", at {tmp_path / 'broken_tasks.py'}:{line}")
    assert "\n" not in text


def test_a_name_whose_own_code_fails_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise (AttributeError if name == "missing" else ZeroDivisionError)(name)

    monkeypatch.setitem(sys.modules, "odd_tasks", Odd("odd_tasks"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(ConfigurationError, match="has no 'missing'"):
        plan.import_object("odd_tasks:missing")
    with pytest.raises(ZeroDivisionError):
        plan.import_object("odd_tasks:fails")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda url, name: DelayQueue.from_url(url, name).push("a", b"1"), "DelayQueue.consume"),
        (lambda url, name: Topic.from_url(url, name).publish(b"1"), "Topic.consume"),
        (lambda url, name: RSMQ.from_url(url, name).create_queue("q"), "RSMQ.receive_message"),
    ],
    ids=["delay", "topic", "rsmq"],
)
def test_a_queue_that_is_no_list_is_refused_until_a_list_of_its_name_is_used(
    server: Server, token: str, make: Any, reason: str
) -> None:
    make(server.url, token)
    name = token + ":q" * reason.startswith("RSMQ")
    asked = Plan("tests.process.jobs:quick", (name,), server.url, drain=True, history=False)
    refusal = f"'{name}' is an? .* takes from lists: .*{reason}"
    with pytest.raises(ConfigurationError, match=refusal):
        asked.run()
    with Queue.from_url(server.url, name) as queue:
        queue.push({"id": "1"})
        asked.run()
        assert queue.stats().ready == 0
    asked.run()  # it is empty now, and was not always


@pytest.mark.parametrize("error", [None, OSError("gone"), ValueError("closed")])
def test_a_worker_ends_also_if_nobody_reads_its_output(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    ended: list[int] = []

    def flush() -> None:
        if error is not None:
            raise error

    monkeypatch.setattr("sys.stdout", types.SimpleNamespace(flush=flush))
    monkeypatch.setattr("os._exit", ended.append)
    monkeypatch.setattr("logging.shutdown", lambda: None)
    plan._exit_now(3)
    assert ended == [3]
