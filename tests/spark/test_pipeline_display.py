"""What `ackq pipeline run` shows, in terminals of any width, in a log and as JSON."""

import io
import json
import threading
from collections import Counter

import pytest
from rich.console import Console

from ackq.spark.pipeline import PipelineConfig, Progress
from ackq.spark.pipeline.display import display, screen
from ackq.spark.pipeline.failed_rows import Search
from ackq.spark.pipeline.micro_batches import BatchResult

CONFIG = PipelineConfig.of(
    {
        "name": "ratings-of-all-films",
        "checkpoint": "/c",
        "source": {"queue": "{films}"},
        "sink": {
            "path": "/srv/a-folder-with-a-long-name/that-goes-on/and-on/until-it-is-cut/ratings"
        },
    }
)
LONG = "check: " + ", ".join(f"a_name_of_a_check_{n}" for n in range(8))


def far() -> Progress:
    """Return the progress of a run that has seen much."""
    progress = Progress(CONFIG.name, state="working", lag=123_456_789)
    progress.add(BatchResult(7, 12_345_678, 1_000, Counter({"does not parse": 990, LONG: 10}), 2.0))
    progress.add(
        BatchResult(8, 100_000, 4, Counter({f"null: column_{n}": 1 for n in range(4)}), 1.25)
    )
    return progress


def shown(progress: Progress, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(screen(CONFIG, progress, width))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(width: int) -> None:
    lines = shown(far(), width)
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    for number in ("12,445,678", "12,444,674", "1,004", "123,456,789", "8"):
        assert number in text
    assert "ratings-of-all-films" in lines[0]
    assert "and 1 more reasons" in text
    assert "Press Ctrl-C to stop after the current batch" in text


def test_a_wide_terminal_shows_the_last_batch_and_whole_texts() -> None:
    lines = shown(far(), 200)
    assert lines[0] == (
        "ratings-of-all-films  queue {films} → parquet"
        " /srv/a-folder-with-a-long-name/that-goes-on/and-on/until-it-is-cut/ratings  working"
    )
    assert lines[1].split() == [
        "read",
        "written",
        "rejected",
        "rows/s",
        "lag",
        "batch",
        "batch",
        "rows",
        "batch",
        "rejects",
        "batch",
        "time",
        "running",
    ]
    assert "1.2 s" in lines[2]
    assert any(LONG in line for line in lines)
    assert "…" in "\n".join(shown(far(), 80))


def test_nothing_is_shown_that_is_not_known_yet() -> None:
    lines = shown(Progress(CONFIG.name), 80)
    assert lines[2].split() == ["0", "0", "0", "0", "-", "-"]
    assert len(lines) == 3


def test_elsewhere_there_is_a_line_for_each_batch_and_each_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress("films")
    with display(CONFIG, as_json=False) as show:
        for state in ("starting", "waiting", "waiting", "working"):
            progress.state = state
            show(progress)
        progress.lag = 50
        progress.add(BatchResult(0, 1_000, 0, Counter(), 0.5))
        show(progress)
        show(progress)
        progress.add(BatchResult(1, 10, 3, Counter({"does not parse": 3}), 0.1))
        show(progress)
        for state in ("stopping", "stopping", "stopped"):
            progress.state = state
            show(progress)
    assert capsys.readouterr().out.splitlines() == [
        "films: starting",
        "films: waiting",
        "films: batch 0  1,000 rows  2,000/s  0 rejected  lag 50",
        "films: batch 1  10 rows  100/s  3 rejected  lag 50",
        "films: stopping after the current batch",
        "films: stopped  2 batches  1,010 rows  3 rejected  lag 50",
    ]


def test_a_batch_that_ends_while_the_pipeline_is_stopping_has_its_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress("films", state="stopping")
    with display(CONFIG, as_json=False) as show:
        show(progress)
        progress.add(BatchResult(0, 10, 0, Counter(), 0.1))
        show(progress)
        progress.state = "stopped"
        show(progress)
    assert capsys.readouterr().out.splitlines() == [
        "films: stopping after the current batch",
        "films: batch 0  10 rows  100/s  0 rejected",
        "films: stopped  1 batches  10 rows  0 rejected",
    ]


def test_as_json_each_line_has_all_that_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    progress = far()
    with display(CONFIG, as_json=True) as show:
        show(progress)
        progress.state = "stopped"
        show(progress)
    first, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert last["state"] == "stopped"
    del first["elapsed"], first["rows_per_second"]
    assert first == {
        "name": CONFIG.name,
        "state": "working",
        "batches": 2,
        "rows": 12_445_678,
        "written": 12_444_674,
        "rejected": 1_004,
        "reasons": dict(far().reasons),
        "late": 0,
        "lag": 123_456_789,
        "search": None,
        "batch": {"number": 8, "rows": 100_000, "rejected": 4, "seconds": 1.25},
    }


def test_a_search_for_failing_rows_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress("films", state="working", search=Search(jobs=7, found=1))
    line = "the batch failed, looking for the rows that cause it  7 jobs  1 found"
    with display(CONFIG, as_json=False) as show:
        for progress.elapsed in (1.0, 2.0, 3.0, 7.0):
            show(progress)
        progress.search = None
        progress.elapsed = 20.0
        show(progress)
    # The first line comes at once, another one after five seconds.
    assert capsys.readouterr().out.splitlines() == [
        "films: working",
        f"films: {line}",
        f"films: {line}",
    ]
    progress.search = Search(jobs=7, found=1)
    assert line in shown(progress, 100)
    assert progress.as_dict()["search"] == {"jobs": 7, "found": 1}


class Stream(io.TextIOWrapper):
    """A standard output that shows what was flushed."""

    def __init__(self, terminal: bool) -> None:
        self.terminal, self.raw_ = terminal, io.BytesIO()
        super().__init__(self.raw_, "utf-8")

    def isatty(self) -> bool:
        return self.terminal

    @property
    def seen(self) -> str:
        return self.raw_.getvalue().decode()


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_is_seen_at_once(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    stream = Stream(terminal)
    monkeypatch.setattr("sys.stdout", stream)
    threads = threading.active_count()
    with display(CONFIG, as_json=False) as show:
        show(Progress(CONFIG.name, state="waiting"))
        assert f"{CONFIG.name}: waiting" in stream.seen or terminal
        assert "Press Ctrl-C" in stream.seen or not terminal
        assert threading.active_count() == threads  # nothing is drawn in between
    before = stream.seen
    with display(CONFIG, as_json=True) as show:
        show(Progress(CONFIG.name, state="stopped"))
    assert json.loads(stream.seen.removeprefix(before))["state"] == "stopped"


def test_the_rate_is_of_the_last_half_minute() -> None:
    progress = Progress("films")
    progress._began -= 100
    progress.add(BatchResult(0, 3_000, 0))
    assert progress.rate == pytest.approx(100, rel=0.01)
    progress._began -= 40
    progress.tick()
    assert progress.rate == 0
