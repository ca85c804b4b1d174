"""The demo: it passes on a real run, and its account fails where a run was not sound."""

import io
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import redis
from rich.console import Console

from ackq.demo import Plan, run
from ackq.demo.account import Check, Evidence, check
from ackq.demo.display import Display
from ackq.demo.journal import Event, Journal, Reader, Tally
from ackq.demo.source import JOBS, fingerprint, lines_of, standard_library
from ackq.queue.messages import AuditFinding, AuditReport, QueueStats
from tests import forked
from tests.waiting import wait_until

DEMO = [sys.executable, "-c", "from ackq.cli import main; main()", "demo"]
LINES = [b'{"id": 1}', b"", b"not json", b'{"id": 1}', b"\xff\xfe", b'{"id": null}\r', b"", b"[]"]


def plain() -> tuple[Display, io.StringIO]:
    output = io.StringIO()
    return Display(Console(file=output)), output


# --- a real run -------------------------------------------------------------------


def test_a_small_demo_passes_on_lines_of_any_kind(tmp_path: Path) -> None:
    source = tmp_path / "lines"
    source.write_bytes(b"\n".join(LINES * 3) + b"\n")
    command = [*DEMO, "--input", str(source), "--seconds", "2"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "NO_COLOR": "1", "ACKQ_REDIS_URL": ""}
    done = forked.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "24 messages\nbare LPUSH onto the list ackq-demo-" in done.stdout
    assert "SIGKILL to worker" in done.stdout
    assert "all 10 checks hold" in done.stdout
    assert "FAIL" not in done.stdout
    assert "\x1b" not in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["lines"]


def test_a_demo_on_a_given_server_deletes_its_queue(plain_client: redis.Redis, url: str) -> None:
    display, output = plain()
    assert run(Plan(lines_of(b"one"), "one line", url=url, seconds=0.5, lease=1.0), display)
    assert "1 message, each exactly once" in output.getvalue()
    assert not plain_client.keys("ackq-demo-*")


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.campaign)]
)
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, number: int) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "ACKQ_REDIS_URL": ""}
    command = [*DEMO, "--workers", "3", "--producers", "1"]
    process = forked.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    demo = psutil.Process(process.pid)
    assert process.stdout is not None
    while "SIGKILL to" not in process.stdout.readline():
        assert process.poll() is None
    children = demo.children(recursive=True)
    assert len(children) >= 4
    process.send_signal(number)
    assert process.wait(20) == 130
    process.stdout.close()
    wait_until(lambda: not any(child.is_running() for child in children), "all to have ended")
    assert not list(tmp_path.iterdir())


# --- the account ------------------------------------------------------------------


class Run:
    """A sound run, written down by hand: its events can be altered before they are counted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        bodies = [b'{"id":"a"}', b"twin", b"twin", b'{"id":"b"}']
        self.input = Counter(map(fingerprint, bodies))
        self.digests = {fingerprint(body): JOBS["line"](body) for body in bodies}
        pushed: list[Event] = [{"event": "pushed", "bodies": [fingerprint(b)]} for b in bodies]
        self.journals: dict[str, list[Event]] = {
            "producer 1": pushed,
            "killed": [self.event("took", b'{"id":"a"}', 1, count=1)],
            "frozen": [
                self.event("took", b'{"id":"b"}', 2, count=1),
                *self.handled(b"twin", 3),
                self.event("done", b'{"id":"b"}', 2),
                self.event("acking", b'{"id":"b"}', 2),
                self.event("refused", b'{"id":"b"}', 2),
            ],
            "other": [
                *self.handled(b'{"id":"a"}', 4, count=2),
                *self.handled(b'{"id":"b"}', 5, count=2),
                *self.handled(b"twin", 6),
            ],
        }
        self.stats = QueueStats(0, 0, 0, 0, 0, 0, False, None)
        self.audit = AuditReport(0, ())

    def event(self, event: str, body: bytes, receipt: int, **more: Any) -> Event:
        fields: Event = {"event": event, "key": body.decode(), "receipt": receipt}
        fields["body"] = fingerprint(body)
        if event == "done":
            fields["digest"] = JOBS["line"](body)
        return fields | more

    def handled(self, body: bytes, receipt: int, count: int = 1) -> list[Event]:
        events = [self.event("took", body, receipt, count=count)]
        return events + [self.event(each, body, receipt) for each in ("done", "acking", "acked")]

    def account(self) -> list[Check]:
        for name, events in self.journals.items():
            Journal(self.folder / name).write(events)
        tallies = {name: Tally(self.digests) for name in self.journals}
        for name, tally in tallies.items():
            tally.add(Reader(self.folder / name).read())
        producer, held = tallies.pop("producer 1"), frozenset(tallies["killed"].held)
        return check(
            Evidence(
                self.input,
                self.digests,
                [producer],
                tallies,
                "killed",
                held,
                self.stats,
                self.audit,
            )
        )

    def drop(self, name: str, **wanted: Any) -> None:
        """Take away the events of a journal that match."""
        self.journals[name] = [
            event for event in self.journals[name] if wanted.items() - event.items()
        ]


def test_a_sound_run_passes(tmp_path: Path) -> None:
    assert [each for each in Run(tmp_path).account() if not each.ok] == []


def lose_a_message(run: Run) -> None:
    run.drop("other", key="twin")


def lose_a_push(run: Run) -> None:
    run.journals["producer 1"].pop()


def push_twice(run: Run) -> None:
    run.journals["producer 1"].append(run.journals["producer 1"][0])


def ack_without_work(run: Run) -> None:
    run.drop("other", event="done", key="twin")


def work_after_the_ack(run: Run) -> None:
    run.drop("other", event="done", key="twin")
    run.journals["other"].append(run.event("done", b"twin", 6))


def ack_twice(run: Run) -> None:
    run.journals["other"].append(run.event("acked", b"twin", 6))


def never_ack(run: Run) -> None:
    run.drop("other", event="acked", key="twin")


def accept_the_stale_ack(run: Run) -> None:
    run.journals["frozen"][-1]["event"] = "acked"


def compute_wrongly(run: Run) -> None:
    run.journals["other"][1]["digest"] = "0" * 64


def work_on_what_nobody_pushed(run: Run) -> None:
    run.journals["other"] += run.handled(b"phantom", 7)


def forget_the_killed(run: Run) -> None:
    run.drop("killed")


def redeliver_to_nobody(run: Run) -> None:
    run.journals["other"][0]["count"] = 1


def leave_one_behind(run: Run) -> None:
    run.stats = replace(run.stats, in_flight=1)


def leave_an_orphan(run: Run) -> None:
    run.audit = AuditReport(1, (AuditFinding("orphan body", "a", False),))


@pytest.mark.parametrize(
    ("fault", "failing"),
    [
        (lose_a_message, {"processed", "acked"}),
        (lose_a_push, {"pushed"}),
        (push_twice, {"pushed"}),
        (ack_without_work, {"processed", "earned"}),
        (work_after_the_ack, {"earned"}),
        (ack_twice, {"acked", "earned"}),
        (never_ack, {"acked"}),
        (accept_the_stale_ack, {"acked", "stale acks"}),
        (compute_wrongly, {"digests"}),
        (work_on_what_nobody_pushed, {"processed", "digests", "acked"}),
        (forget_the_killed, {"redelivered"}),
        (redeliver_to_nobody, {"redelivered"}),
        (leave_one_behind, {"queue empty"}),
        (leave_an_orphan, {"audit"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_account_fails_where_the_run_was_not_sound(
    tmp_path: Path, fault: Callable[[Run], None], failing: set[str]
) -> None:
    run = Run(tmp_path)
    fault(run)
    assert {each.name for each in run.account() if not each.ok} == failing


@pytest.mark.parametrize("end", ["acked", "gone", "refused"])
def test_a_settled_message_is_in_hand_no_more(end: str) -> None:
    tally = Tally({"body": "digest"})
    message = {"key": "a", "receipt": 1, "count": 1, "body": "body", "digest": "digest"}
    tally.add([{**message, "event": event} for event in ("took", "done", "acking")])
    assert set(tally.held) == {("a", 1)}
    tally.add([{**message, "event": end}])
    assert not tally.held
    assert (tally.acked.total(), tally.refused) == (end == "acked", end == "refused")


def test_a_line_that_was_cut_off_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    reader = Reader(path)
    assert reader.read() == []
    Journal(path).write([{"event": "one"}])
    with path.open("ab") as file:
        file.write(b'{"event":"tw')
    assert reader.read() == [{"event": "one"}]
    with path.open("ab") as file:
        file.write(b'o"}\n')
    assert reader.read() == [{"event": "two"}]


# --- the input and the screen -----------------------------------------------------


def test_every_line_of_an_input_is_a_message() -> None:
    assert lines_of(b"a\n\nb\r\n") == [b"a", b"", b"b\r"]
    assert lines_of(b"a\nb") == [b"a", b"b"]
    with pytest.raises(ValueError, match="empty"):
        lines_of(b"")


def test_the_standard_library_is_hashed_by_its_files() -> None:
    bodies = standard_library()
    assert len(bodies) > 300
    assert len(JOBS["file"](bodies[0])) == 64


@pytest.mark.parametrize("width", [80, 200])
def test_the_live_view_fits_the_terminal(width: int) -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=width, height=40, highlight=False)
    display = Display(console)
    tally = Tally({}, processed=Counter(a=123_456), acked=Counter(a=99_999))
    tally.held = {("key", number): False for number in range(1000)}
    workers: list[Any] = [
        SimpleNamespace(name=f"worker {n}", pid=4194304, state="running", tally=tally)
        for n in range(4)
    ]
    display.open("the lines of [bold]x", 1_000_000, "ackq-demo-01234567 of a private Redis")
    display.tell(123.4, "SIGCONT to worker 2: worker 4 holds its messages by now")
    display.update(123.4, QueueStats(99_999, 999, 0, 0, 0, 0, False, None), 1_000_000, workers)
    display.account([Check("acked", False, "1 never acked"), Check("audit", True, "sound")])
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.getvalue())
    assert "the lines of [bold]x" in shown
    assert "1,000,000 / 1,000,000" in shown
    assert "1 of 2 checks FAILED: acked" in shown
    assert max(map(len, shown.splitlines())) <= min(width, 110)
