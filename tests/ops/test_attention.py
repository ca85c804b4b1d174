"""What needs a person now: which figures are which troubles."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner
from redis.exceptions import BusyLoadingError, ConnectionError

from ackq.cli import main
from ackq.errors import ConfigurationError
from ackq.ops.attention.marks import GROWTH_OVER, Marks
from ackq.ops.attention.model import (
    KINDS,
    Details,
    Key,
    Limits,
    Trouble,
    arranged,
    room_in,
    troubles_of_queue,
    troubles_of_server,
)
from ackq.ops.attention.watch import Steady
from ackq.ops.chronicle.minutes import Minute
from ackq.ops.readings import Reading, Totals
from ackq.ops.worker_info import Running, WorkerInfo
from ackq.queue.messages import GroupCounts, QueueStats

NOON = 1_800_000_000.0
#: A reading, and its time in seconds after noon.
Look = tuple[float, Reading]
ALIVE = Details()
GROUPS = GroupCounts(0, 0, 0, 0, 0, 0.0)


def reading(ready: int = 0, held: int = 0, **figures: Any) -> Reading:
    """Return a queue with some messages, whose totals are those in ``counts`` and ``died``."""
    counts, died = figures.pop("counts", {}), figures.pop("died", {})
    totals = Totals(NOON - 9e4, {"taken": 0, "acked": 0, **counts}, died)
    states = {"ready": ready, "in_flight": held, "dead": sum(died.values())}
    shown = Reading("list", "jobs", ready + held, states, totals=totals, workers=1)
    return replace(shown, **figures)


def claiming(claimed: int) -> QueueStats:
    return QueueStats(5, claimed, 0, 0, 0, 0, False, None, None, claimed)


def fallen(number: int, lived: float = 59.0, late: bool = True) -> Details:
    """Return workers that were last seen a while after they had started, working on a message."""
    run = (Running("jobs", "kill\u202eer", NOON - 9), Running("jobs", "innocent", NOON - 9))
    shown = [(run[: 1 + number % 2]) for number in range(number)]
    return Details(
        workers=[
            WorkerInfo(
                "w", "w", "h", 1, "1", (), 1, 0, "working", late, "", 100.0, 100 + lived, each, ()
            )
            for each in shown
        ]
    )


def kinds(limits: Limits, *looks: Look, details: Details = ALIVE, **asked: Any) -> set[str]:
    """Return the kinds of trouble after some readings, each at its seconds after noon."""
    marks = Marks()
    for seconds, read in looks:
        marks.advance(read, NOON + seconds)
    at, last = looks[-1]
    return {
        one.key.kind for one in troubles_of_queue(last, marks, details, limits, NOON + at, **asked)
    }


def nacked(number: int) -> Reading:
    return reading(1, 1, counts={"taken": number, "nacked": number})


def grown(*backlogs: int) -> list[Look]:
    """Return readings at equal distances, the last one late enough."""
    step = GROWTH_OVER / (len(backlogs) - 1)
    taken = iter(range(100))
    return [
        (number * step, reading(0, each, counts={"taken": next(taken), "acked": 1}))
        for number, each in enumerate(backlogs)
    ]


def same(seconds: float, shown: Reading) -> list[Look]:
    return [(0, shown), (seconds, shown)]


def then(before: Reading, after: Reading, *seconds: float) -> list[Look]:
    return [(0, before), *((each, after) for each in seconds)]


def acked(number: int) -> Reading:
    return reading(1, 1, counts={"returned": 20, "taken": 20, "acked": number})


NOBODY, FEW = reading(5, workers=0), reading(4, counts={"taken": 1})
DIED, MORE = reading(died={"x": 9}), reading(died={"x": 10})
PAUSED = reading(9, paused=True, oldest_ready=9e9)
UNKNOWN, CLAIMED = reading(5, totals=None), reading(5, stats=claiming(3))
#: What is shown; the kind; readings that show it, and readings that just do not.
CASES: dict[str, tuple[str, list[Look], list[Look]]] = {
    "20 of 20 fail": ("all_fail", then(nacked(0), nacked(20), 5), then(nacked(0), nacked(19), 5)),
    "none was tried since": (
        "all_fail",
        then(nacked(0), nacked(20), 5, 904),
        then(nacked(0), nacked(20), 5, 905),
    ),
    "leases end": ("all_fail", then(nacked(0), acked(0), 9), then(nacked(0), acked(1), 9)),
    "rejects": (
        "all_fail",
        then(reading(), reading(died={"rejected": 20}), 9),
        then(reading(), reading(died={"max_age": 20}), 9),
    ),
    "none is taken": ("not_taken", same(45, reading(5)), same(44, reading(5))),
    "one was taken": ("not_taken", then(reading(5), FEW, 10, 55), then(reading(5), FEW, 10, 54)),
    "handlers may take long": ("not_taken", same(600, reading(5, 1)), same(599, reading(5, 1))),
    "a lease ended long ago": (
        "not_taken",
        same(1, reading(1, overdue=45.0)),
        same(1, reading(1, overdue=44.0)),
    ),
    "groups that could be taken": (
        "not_taken",
        same(50, reading(5, groups=replace(GROUPS, moved_aside=4))),
        same(50, reading(5, groups=replace(GROUPS, moved_aside=5))),
    ),
    "no worker": ("no_worker", same(45, NOBODY), same(44, NOBODY)),
    "not counted": ("not_taken", same(100, reading(5)), same(100, UNKNOWN)),
    "a pipeline stopped": ("pipeline", same(600, CLAIMED), same(599, CLAIMED)),
    "the oldest": (
        "oldest",
        [(0, reading(oldest_ready=600.0))],
        [(0, reading(oldest_ready=599.9))],
    ),
    "paused, though old": ("paused", same(3600, PAUSED), same(3599, PAUSED)),
    "dead letters": ("dead", then(DIED, MORE, 1, 900), then(DIED, MORE, 1, 901)),
    "counting restarted": (
        "dead",
        then(DIED, reading(totals=Totals(NOON, {}, {"y": 1})), 1),
        then(DIED, reading(totals=Totals(NOON, {}, {})), 1),
    ),
    "stopped groups": (
        "stopped",
        [(0, reading(groups=replace(GROUPS, stopped=1)))],
        [(0, reading(groups=replace(GROUPS, limited=1)))],
    ),
    "growth": ("grows", grown(5, 50, 60, 100), grown(5, 60, 50, 100)),
    "growth that is small": ("grows", grown(5, 50, 60, 100), grown(5, 50, 60, 99)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_trouble_begins_at_its_limit_and_not_before(case: str) -> None:
    kind, loud, quiet = CASES[case]
    assert kind in kinds(Limits(), *loud)
    assert kind not in kinds(Limits(), *quiet)
    never = dict.fromkeys(("all_fail", "not_taken", "oldest", "paused", "dead", "grows"), 0)
    assert kinds(Limits(**never), *loud) <= {"stopped"}


def test_a_command_that_looks_once_needs_no_history() -> None:
    assert kinds(Limits(), *same(2, NOBODY), once=True) == {"no_worker"}
    assert kinds(Limits(), *same(2, reading(5, 1, workers=0)), once=True) == set()
    assert kinds(Limits(), *same(2, NOBODY)) == set()
    taken = [(0.0, NOBODY), (9.0, replace(FEW, workers=0)), (11.0, replace(FEW, workers=0))]
    assert kinds(Limits(), *taken[:2], once=True) == set()
    assert kinds(Limits(), *taken, once=True) == {"no_worker"}


#: The kind, details that show it, those that just do not, and what the evidence names.
DETAILS: list[tuple[str, Details, Details, str]] = [
    ("crashes", fallen(3), fallen(2), r"message 'kill\u202eer' was in 3 of them"),
    ("crashes", fallen(3), fallen(3, lived=60.0), "3 workers ended"),
    ("crashes", fallen(3), fallen(3, late=False), "3 workers ended"),
    (
        "schedule",
        Details(late={"nightly": NOON - 60}),
        Details(late={"nightly": NOON - 59}),
        "'nightly'",
    ),
    ("interrupted", Details(interrupted={"Redrive 3": NOON - 20}), ALIVE, '"Redrive 3"'),
]


@pytest.mark.parametrize(("kind", "loud", "quiet", "named"), DETAILS)
def test_troubles_of_what_is_read_now_and_then(
    kind: str, loud: Details, quiet: Details, named: str
) -> None:
    (found,) = troubles_of_queue(reading(), Marks(), loud, Limits(), NOON)
    assert found.key == Key(kind, "list", "jobs")
    assert named in found.evidence
    assert [*troubles_of_queue(reading(), Marks(), quiet, Limits(), NOON)] == []


def test_quiet_workers_and_the_cause_of_dead_letters_are_named() -> None:
    marks, died = Marks(), reading(died={"x": 1})
    marks.advance(died, NOON, new=True)
    (found,) = troubles_of_queue(died, marks, Details(cause="ValueError at a.py:3"), Limits(), NOON)
    assert found.evidence == "1 new dead letter within 15 min, mostly by ValueError at a.py:3"
    (worker,) = fallen(1, late=False).workers
    quiet = Details(workers=[replace(worker, state="quiet")])
    assert kinds(Limits(), (0, reading(5)), (1, reading(5)), details=quiet, once=True) == {
        "not_taken"
    }


def test_the_growth_says_when_memory_ends() -> None:
    marks, looks = Marks(), grown(100, 400, 700, 1000)
    for at, each in looks:
        marks.advance(each, NOON + at)
    now = NOON + looks[-1][0]
    (found,) = troubles_of_queue(looks[-1][1], marks, ALIVE, Limits(), now, room=3600.0 * 7)
    assert found.evidence.endswith(
        "1.00 messages a second; if that goes on, memory ends at about 2027-01-15 15:00 UTC"
    )
    full = {"used_memory": "900", "maxmemory": "1000"}
    assert room_in([full], [reading(80, 10)]) == 10.0
    assert room_in([full | {"maxmemory": "0"}], [reading(80, 10)]) is None


def test_the_minutes_of_others_count() -> None:
    rows = [
        Minute(int(NOON - 120), 60, states=(5, 0, 0, 0), counts={"acked": 9, "taken": 9}),
        Minute(
            int(NOON - 60), 60, states=(5, 1, 0, 1), counts={"nacked": 12}, dead={"rejected": 1}
        ),
    ]
    marks = Marks()
    marks.include(
        rows,
        Totals(NOON - 9e4, {"taken": 70, "acked": 30, "nacked": 20}, {"rejected": 1}, NOON - 60),
    )
    now = reading(5, counts={"taken": 70, "acked": 30, "nacked": 27}, died={"rejected": 1})
    marks.advance(now, NOON)
    found = {one.key.kind: one for one in troubles_of_queue(now, marks, ALIVE, Limits(), NOON)}
    assert found.keys() == {"all_fail", "dead", "not_taken"}
    assert (found["all_fail"].value, found["all_fail"].since) == (20, NOON - 120)
    assert found["not_taken"].since == NOON - 120
    assert found["dead"].value == 1


FINE = {"used_memory": "90", "maxmemory": "100", "maxmemory_policy": "noeviction", "role": "master"}
SERVERS: list[tuple[set[str], bool, Exception | None, dict[str, str]]] = [
    (set(), True, None, FINE),
    (set(), True, None, {}),
    ({"unreadable"}, False, ConnectionError("refused"), FINE),
    ({"unreadable"}, False, None, {}),
    ({"loading"}, False, BusyLoadingError("Redis is loading"), {}),
    ({"loading"}, True, None, FINE | {"loading": "1"}),
    ({"read_only"}, True, None, FINE | {"role": "slave"}),
    ({"disk"}, True, None, FINE | {"rdb_last_bgsave_status": "err"}),
    ({"nearly_full"}, True, None, FINE | {"used_memory": "91"}),
    ({"full"}, True, None, FINE | {"used_memory": "100"}),
    ({"evicting"}, True, None, FINE | {"maxmemory_policy": "allkeys-lru", "used_memory": "100"}),
    (set(), True, None, FINE | {"maxmemory": "0", "used_memory": "100"}),
    (set(), True, None, {"used_memory": "\u0661", "maxmemory": "-1", "evicted_keys": "many"}),
]


@pytest.mark.parametrize(("expected", "up", "problem", "info"), SERVERS)
def test_troubles_of_a_server(
    expected: set[str], up: bool, problem: Exception | None, info: dict[str, str]
) -> None:
    found = [*troubles_of_server("redis:6379", problem, up, info)]
    assert {each.key.kind for each in found} == expected
    assert all("redis:6379" in each.text for each in found)


NAN = float("nan")
HOSTILE: list[Reading] = [
    Reading("topic", "x", -5),
    Reading("rsmq", "a\nb'; rm -rf /", 10**30, {"hidden": -1}, oldest_ready=NAN),
    reading(-1, -1, overdue=-5.0, oldest_ready=-1.0, workers=-1),
    reading(5, totals=Totals(None, {}), workers=None, oldest_ready=float("inf")),
    reading(5, totals=Totals(NAN, {"taken": -3, "nacked": 10**20}, {"\u202e\0": 10**20}, NAN)),
    reading(5, counts={"acked": -224, "taken": -100}, groups=replace(GROUPS, moved_aside=-9)),
    replace(reading(7), kind="sharded", parts=(reading(7), reading(-7))),
]


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("at", [NOON, 0.0, -1e9, 4e9])
def test_no_figure_raises_and_each_trouble_is_one_visible_line(hostile: Reading, at: float) -> None:
    marks = Marks()
    for read, seconds in ((reading(5), 0.0), (hostile, 1.0), (hostile, 5000.0), (hostile, -300.0)):
        marks.advance(read, at + seconds)
        bad = Details(late={"\x1b[2J": at - 1e9}, cause="\u202e", interrupted={"\n": at + 1e9})
        for once in (False, True):
            for each in troubles_of_queue(read, marks, bad, Limits(), at + seconds, 0.0, once):
                assert (each.text + each.help).isprintable()
                assert each.as_dict()["severity"] == KINDS[each.key.kind].severity


def trouble(kind: str, queue: str = "jobs", since: float | None = None) -> Trouble:
    return Trouble(Key(kind, "list" if queue else "", queue), since, 1.0, "evidence")


def test_nothing_flaps_and_an_outage_ends_nothing() -> None:
    steady = Steady(Limits(unreadable=30))

    def seen(seconds: float, *found: Trouble) -> dict[str, float | None]:
        return {one.key.kind: one.since for one in steady.settle(found, NOON + seconds)}

    assert seen(0, trouble("dead", since=NOON - 5)) == {"dead": NOON - 5}
    for seconds in range(1, 60, 2):
        found = (trouble("dead", since=NOON + seconds),) if seconds % 4 == 1 else ()
        assert seen(seconds, *found) == {"dead": NOON - 5}
    assert seen(57 + 30) == {}
    down = trouble("unreadable", "")
    assert seen(100, trouble("oldest"), down) == {"oldest": NOON + 100}
    assert seen(129.9, down) == {"oldest": NOON + 100}
    assert seen(130, down) == {"oldest": NOON + 100, "unreadable": NOON + 100}
    assert seen(129 + 30).keys() == {"oldest", "unreadable"}
    assert seen(130 + 30) == {}
    assert seen(-500, trouble("dead")) == {"dead": NOON - 500}  # the clock was set back
    assert seen(-400) == {}
    worst = arranged([trouble("dead"), trouble("oldest", since=1.0), trouble("full", "")])
    assert [each.key.kind for each in worst] == ["full", "dead", "oldest"]


def test_limits_are_parsed() -> None:
    assert Limits.parse(()) == Limits()
    assert Limits.parse(["oldest=60", "dead=0", "oldest=61"]) == Limits(oldest=61, dead=0)
    for wrong in (
        "oldest",
        "oldest=",
        "oldest=-1",
        "dead=nan",
        "dead=1e10",
        "older=1",
        "=",
        "dead=\u0661",
    ):
        with pytest.raises(ConfigurationError, match=r"oldest|dead"):
            Limits.parse([wrong])


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_that_helps_is_one(kind: str) -> None:
    words = shlex.split(trouble(kind, "a queue").help)
    shown = CliRunner().invoke(main, [*words[1:], "--help"])
    assert (words[0], shown.exit_code) == ("ackq", 0), shown.output
