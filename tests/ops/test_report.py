"""The report on many queues: its counts, its files, and that it changes nothing."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import redis
from click.testing import CliRunner

from ackq import Queue
from ackq.cli import main
from ackq.errors import ConfigurationError
from ackq.ops.report import report

#: A body, which must not appear in a report, and a reason that a terminal must not obey.
SECRET, CONTROL = "canary-of-a-body", "red \u202e\x9b"


@pytest.fixture
def queue(plain_client: redis.Redis, name: str) -> Iterator[Queue]:
    with Queue(plain_client, name) as queue:
        yield queue


@pytest.fixture
def queues(queue: Queue, plain_client: redis.Redis) -> Iterator[tuple[Queue, Queue]]:
    """One queue with three dead letters of two reasons, and one with a fourth that has none.

    The first also has a message in each other state.
    """
    with Queue(plain_client, f"{queue.name}-mail") as mail:
        queue.push_many({"id": f"d{n}", "body": SECRET} for n in range(3))
        for message, reason in zip(queue.pop_many(3), (CONTROL, CONTROL, "$5 $6"), strict=True):
            queue.reject(message, reason=reason)
        mail.push({"id": "lost"})
        mail.reject(*mail.pop_many(1))
        queue.push_many([{"id": "flying"}, {"id": "waiting"}])
        # On a busy machine a report takes longer than the usual lease.
        assert queue.pop(visibility_timeout=600) is not None
        queue.push({"id": "later"}, delay=60)
        yield queue, mail


def content(queue: Queue) -> list[object]:
    """Return everything that a report could have changed."""
    peeked = [
        list(queue.peek(10, "ready")),
        list(queue.peek(10, "in_flight")),
        list(queue.peek(10, "delayed")),
    ]
    return [peeked, queue.dead_letters()]


def test_the_numbers_of_each_queue_and_reason(
    plain_client: redis.Redis, queues: tuple[Queue, Queue]
) -> None:
    jobs, mail = queues
    before = content(jobs), content(mail)
    summary = report(plain_client, [jobs.name, mail.name])
    assert (summary.dead, summary.in_flight) == (4, 1)
    counted = {(failure.queue, failure.reason): failure.dead for failure in summary.failures}
    assert counted == {
        (jobs.name, CONTROL): 2,
        (jobs.name, "$5 $6"): 1,
        (mail.name, "no reason"): 1,
    }
    assert summary.leased == {jobs.name: 1}
    assert (content(jobs), content(mail)) == before


def test_what_pipelines_rejected_is_counted_by_field_and_rule(
    queue: Queue, plain_client: redis.Redis
) -> None:
    reasons = [
        "does not parse: size is not INT, at is not DATE",
        "null: name, size",
        "does not parse: size is not INT, a is not INT, b is not INT and 2 more",
        "check: engine",
        "transform: DIVIDE_BY_ZERO",
        "no such customer",
    ]
    for number, reason in enumerate(reasons):
        body = f'{{"id":"d{number}"}}' if number else "tea"
        plain_client.xadd(
            f"{queue.name}DEAD",
            {"key": "k", "body": body, "reason": reason, "count": 1, "time": 1_000_000 + number},
        )
    summary = report(plain_client, [queue.name])
    found = [(rule.rule, rule.dead, rule.first_id, rule.latest_id) for rule in summary.broken_rules]
    assert found[0] == ("size is not INT", 2, "", "d2")
    assert sorted(found[1:]) == [
        ("DIVIDE_BY_ZERO", 1, "d4", "d4"),
        ("a is not INT", 1, "d2", "d2"),
        ("at is not DATE", 1, "", ""),
        ("b is not INT", 1, "d2", "d2"),
        ("check engine", 1, "d3", "d3"),
        ("name is null", 1, "d1", "d1"),
        ("size is null", 1, "d1", "d1"),
    ]


def test_the_files_have_one_row_per_message_and_each_report_adds_to_them(
    plain_client: redis.Redis, queues: tuple[Queue, Queue], url: str, tmp_path: Path
) -> None:
    jobs, mail = queues
    report(plain_client, [jobs.name, mail.name], parquet=tmp_path / "reports")
    first = next((tmp_path / "reports").glob("taken=*"))
    rows = pq.read_table(first).to_pylist()
    assert [(row["queue"], row["state"], row["id"], row["bytes"] > 0) for row in rows] == [
        (jobs.name, "dead", "d0", True),
        (jobs.name, "dead", "d1", True),
        (jobs.name, "dead", "d2", True),
        (jobs.name, "in_flight", "flying", True),
        (mail.name, "dead", "lost", True),
    ]
    assert SECRET not in str(rows)
    older = first.rename(first.with_name("taken=2020-01-01T00-00-00Z"))
    jobs.redrive()
    command = [
        "pipeline",
        "report",
        jobs.name,
        mail.name,
        "--parquet",
        str(tmp_path / "reports"),
        "--url",
        url,
    ]
    done = CliRunner().invoke(main, command)
    lines = f"1\tdead\t{mail.name}\tno reason\n1\tin flight\t{jobs.name}\t\n"
    assert (done.exit_code, done.stdout) == (0, lines)
    assert done.stderr == "2 queues, 1 dead letters, 1 in flight\n"
    assert pq.read_table(older).num_rows == 5
    assert pq.read_table(tmp_path / "reports").num_rows == 5 + 2


def test_files_without_their_package_are_refused_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ackq.ops.report.run.find_spec", lambda _: None)
    with (
        redis.Redis(port=1) as client,
        pytest.raises(ConfigurationError, match=r"ackq\[report\]"),
    ):
        report(client, parquet=tmp_path / "reports")
    assert not list(tmp_path.iterdir())


def test_a_reason_is_shown_without_its_control_characters(
    queues: tuple[Queue, Queue], url: str
) -> None:
    done = CliRunner().invoke(main, ["pipeline", "report", queues[0].name, "--url", url])
    assert f"2\tdead\t{queues[0].name}\tred \\u202e\\x9b\n" in done.stdout
    assert SECRET not in done.output
