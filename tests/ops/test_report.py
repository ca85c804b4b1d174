"""The report on many queues: its counts, its files, and that it changes nothing."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import redis
from click.testing import CliRunner

from ackq import Queue
from ackq.cli import main
from ackq.errors import ConfigurationError
from ackq.ops.report import Summary, charts, report
from ackq.ops.report.summary import Failure

#: A body, which must not appear in a report, and a script that a page must not run.
SECRET, SCRIPT = "canary-of-a-body", "<script>alert(1)</script>\u202e\x9b"


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
        for message, reason in zip(queue.pop_many(3), (SCRIPT, SCRIPT, "$5 $6"), strict=True):
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


def see(client: redis.Redis, queues: tuple[Queue, Queue], folder: Path) -> Summary:
    return report(
        client,
        [queue.name for queue in queues],
        html=folder / "queues.html",
        parquet=folder / "reports",
    )


def test_the_numbers_of_each_queue_and_reason(
    plain_client: redis.Redis, queues: tuple[Queue, Queue]
) -> None:
    jobs, mail = queues
    before = content(jobs), content(mail)
    summary = report(plain_client, [jobs.name, mail.name])
    assert (summary.dead, summary.in_flight) == (4, 1)
    counted = {(failure.queue, failure.reason): failure.dead for failure in summary.failures}
    assert counted == {
        (jobs.name, SCRIPT): 2,
        (jobs.name, "$5 $6"): 1,
        (mail.name, "no reason"): 1,
    }
    latest = {failure.latest for failure in summary.failures}
    letters = jobs.dead_letters()
    assert latest == {letters[1].entry, letters[2].entry, mail.dead_letters()[0].entry}
    assert [(each.queue, each.in_flight, each.most_receives) for each in summary.leased] == [
        (jobs.name, 1, 1)
    ]
    # All died within the last bar, less than an hour ago.
    assert sum(summary.over_time.values()) == 4
    assert summary.ages == {(jobs.name, "< 1 h"): 3, (mail.name, "< 1 h"): 1}
    assert (content(jobs), content(mail)) == before


def test_old_dead_letters_are_counted_by_time_and_age(
    queue: Queue, plain_client: redis.Redis, tmp_path: Path
) -> None:
    now = plain_client.time()[0]
    hours = [0.5, 1.5, 25, 25, 200, 200, 200, 1000, 1000, 1000, 1000]
    died = [now - int(3600 * hour) for hour in hours]
    for number, seconds in enumerate(died):
        plain_client.xadd(
            f"{queue.name}DEAD",
            {
                "key": f"k{number}",
                "body": "x",
                "reason": f"r{number % 9}",
                "count": number + 1,
                "time": seconds * 1_000_000,
            },
        )
    summary = report(plain_client, [queue.name], html=tmp_path / "queues.html")
    assert {label: count for (_, label), count in summary.ages.items()} == {
        "< 1 h": 1,
        "1-6 h": 1,
        "1-3 d": 2,
        "> 7 d": 7,
    }
    first = next(failure for failure in summary.failures if failure.reason == "r0")
    letters = queue.dead_letters()
    assert (first.dead, first.most_receives, first.latest) == (2, 10, letters[0].entry)
    assert [each.timestamp() for each in (first.first, first.last)] == [died[9], died[0]]
    # There are two of r0 and of r1, and one of each other. A page shows seven reasons.
    assert set(summary.reasons[:2]) == {"r0", "r1"}
    assert summary.reasons[7:] == ["other reasons"]
    bars: Counter[float] = Counter()
    for (start, reason), count in summary.over_time.items():
        assert reason in summary.reasons
        bars[start.timestamp()] += count
    # Bars end at the time of the report, and not later: none lies in the future.
    end, width = int(summary.taken_at), summary.width
    assert bars == Counter(end - ((end - each) // width + 1) * width for each in died)
    assert 10 * summary.width < max(died) - min(died) < 100 * summary.width


def test_what_pipelines_rejected_is_counted_by_field_and_rule(
    queue: Queue, plain_client: redis.Redis, tmp_path: Path
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
    summary = report(plain_client, [queue.name], html=tmp_path / "queues.html")
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
    assert "check engine" in (tmp_path / "queues.html").read_text()


def test_the_page_stands_alone_and_is_safe_to_open(
    plain_client: redis.Redis, queues: tuple[Queue, Queue], tmp_path: Path
) -> None:
    see(plain_client, queues, tmp_path)
    page = (tmp_path / "queues.html").read_text()
    assert (page.count('class="bars"'), page.count('class="bar"')) == (1, 2)
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "\u202e" not in page
    assert r"\u202e\x9b" in page
    assert SECRET not in page
    assert not re.findall(r"(?:src|href|url)[=(]", page)  # nothing is loaded from elsewhere
    assert "@import" not in page
    assert "</i>$5 $6</span>" in page  # in the legend
    for queue in queues:
        assert queue.name in page
    assert not list(tmp_path.glob(".*"))


def test_the_files_have_one_row_per_message_and_each_report_adds_to_them(
    plain_client: redis.Redis, queues: tuple[Queue, Queue], url: str, tmp_path: Path
) -> None:
    jobs, mail = queues
    see(plain_client, queues, tmp_path)
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
    (tmp_path / "queues.html").unlink()
    command = [
        "pipeline",
        "report",
        jobs.name,
        mail.name,
        "--html",
        str(tmp_path / "queues.html"),
        "--parquet",
        str(tmp_path / "reports"),
        "--url",
        url,
    ]
    done = CliRunner().invoke(main, command)
    assert (done.exit_code, done.output) == (0, "2 queues, 1 dead letters, 1 in flight\n")
    assert mail.name in (tmp_path / "queues.html").read_text()
    assert pq.read_table(older).num_rows == 5
    assert pq.read_table(tmp_path / "reports").num_rows == 5 + 2


def test_the_time_axis_of_recent_dead_letters_ends_with_the_report() -> None:
    taken_at = 1_700_000_030
    summary = Summary(taken_at, {}, width=60)
    for reason, ago, count in (("a", 60, 2), ("b", 60, 2), ("b", 120, 1)):
        at = datetime.fromtimestamp(taken_at - ago, UTC)
        summary.over_time[at, reason] = count
        summary.failures.append(Failure("jobs", reason, count, at, at, 1, "1-0"))
    drawn = charts.over_time(summary)
    bars = re.findall(r'<div title="([^"]+)">(.*?)</div>', drawn)
    heights = [re.findall(r"height:([0-9.]+)px", parts) for _, parts in bars]
    assert heights == [[]] * 10 + [["50.0"], ["100.0", "100.0"]]
    assert [title for title, _ in bars[-2:]] == ["2023-11-14 22:11: 1", "2023-11-14 22:12: 4"]
    assert re.findall(r"<span>([^<]+)</span>", drawn)[-1] == "2023-11-14 22:13"


def test_queues_without_failures(plain_client: redis.Redis, queue: Queue, tmp_path: Path) -> None:
    queue.push({"id": "fine"})
    summary = report(plain_client, [queue.name], html=tmp_path / "queues.html")
    assert (summary.dead, summary.in_flight) == (0, 0)
    assert "There are none." in (tmp_path / "queues.html").read_text()


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


def test_a_folder_for_files_that_is_a_page_is_left_alone(
    plain_client: redis.Redis, queues: tuple[Queue, Queue], tmp_path: Path
) -> None:
    page = tmp_path / "queues.html"
    page.write_text("the old one")
    with pytest.raises(OSError, match=r"exists|directory"):
        report(plain_client, [queues[0].name], html=page, parquet=page)
    assert page.read_text() == "the old one"
