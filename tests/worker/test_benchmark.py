"""How the worker benchmark compares; that it runs is tested with the other benchmarks."""

import sys

from benchmarks.servers import target
from benchmarks.worker import Task, rates_of, ratios_of

TASK = Task("no-op", messages=10, sleep=0.0, concurrency=1, target=5.0)


def test_who_fails_is_left_out_with_a_note() -> None:
    saying = """print('{"seconds": 3.0, "cpu": 1.5}')"""
    commands = {
        "good": [sys.executable, "-c", saying],
        "bad": [sys.executable, "-c", "raise SystemExit('out of luck')"],
    }
    notes: list[str] = []
    with target(None) as server:
        rates = rates_of(commands, TASK, 2, server.url, notes)
    assert rates == {"good": [(3.0, 6.0)] * 2}
    assert notes == ["no-op: bad failed: out of luck"]


def test_ackq_is_compared_with_the_best_peer_of_each_round() -> None:
    rates = {
        "ackq, threads": [10.0, 40.0],
        "ackq, tasks": [20.0, 30.0],
        "one": [2.0, 1.0],
        "other": [1.0, 4.0],
    }
    better, threads, tasks = ratios_of(TASK, rates)
    assert (better.rounds, better.verdict) == ((10.0, 10.0), "target >= 5: reached")
    assert (threads.rounds, tasks.rounds) == ((5.0, 10.0), (10.0, 7.5))
