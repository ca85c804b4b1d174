"""The benchmarks run and report every contestant. No test judges the figures."""

import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis

from ackq.bench.figures import Measure, Ratio, Result, from_json, to_json
from ackq.bench.rounds import Round, ServerCpu, measures_of, percentiles, rotations
from benchmarks import blocked
from benchmarks.checkout import commit
from benchmarks.comparison import comparison_of
from benchmarks.registry import BENCHMARKS, benchmark
from benchmarks.servers import target
from benchmarks.stalls import IDLE_LOOP, IDLE_SHA, run_idle_loops
from benchmarks.thread_cpu import MainThread
from benchmarks.workers import filling
from benchmarks.workers.environments import HERE, PEERS, Peer
from benchmarks.worst.scene import Scene
from tests import facts, forked
from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
#: The contestants in the result. Of other benchmarks it is enough that ackq is among them.
CONTESTANTS = {
    "cycle": {
        "bare list",
        "LMOVE and LREM",
        "article",
        "streams",
        "ackq",
        "bare list, asyncio",
        "ackq, asyncio",
    },
    "depth": {
        "ackq, more ready",
        "ackq, more in flight",
        "ackq, most of both",
        "ackq, pop_many(1000)",
        "ackq, pop_many(100)",
    },
    "blocked": {"ackq", "idle loop"},
    "memory": {"ackq", "streams", "bare list"},
    "wakeup": {"ackq", "BRPOP"},
    "idle": {"ackq", "BRPOP"},
    "latency": {"ackq", "LPUSH and BRPOP", "streams"},
    "scaleout": {
        "ackq, one queue",
        "ackq, 2 queues on 2 servers",
        "ackq, 2 nodes",
        "ackq, consumers help",
        "ackq, each takes from its own shards",
    },
    "worker": {"ackq, threads", "ackq, tasks", "ackq.tasks, threads", "ackq.tasks, asyncio"},
    "tasks": {"bare handler", "ackq, tasks", "ackq, msgspec", "pydantic"},
    "rsmq": {"ackq", "PyRSMQ", "sent by ackq", "sent by PyRSMQ"},
    "groups": {
        "ackq",
        "by hand",
        "ackq, groups",
        "ackq, groups, beside a busy group",
        "ackq, groups, without it",
    },
    "delay": {"ackq", "article", "article, pipelined"},
    "exporter": {"ackq exporter", "no scrape"},
    "topic": {"ackq, at least once", "ackq, at most once", "streams, group", "streams, XREAD"},
    "spark": {
        "ackq, push_many(1000)",
        "ackq, pop_many(1000)",
        "Spark sink",
        "Spark sink, direct",
        "Spark source, foreachBatch",
        "ackq pipeline run --once",
        "plain Spark, from a file",
        *(
            f"Spark source, {how}{part}"
            for how in ("at once", "in tenths")
            for part in ("", ", with start", ", reading alone")
        ),
    },
    "standalone": {"one worker", "two workers"},
}
#: Marks of those that need more than the others: Spark warms up for half a minute, and there are
#: more than a hundred ways to block a server.
MARKS = {
    "blocked": (pytest.mark.campaign, pytest.mark.timeout(300)),
    "parse": (pytest.mark.spark, pytest.mark.campaign),
    **dict.fromkeys(
        ("worker", "scaleout", "fleet", "capacity", "exporter"), (pytest.mark.campaign,)
    ),
    "spark": (
        pytest.mark.spark,
        pytest.mark.campaign,
        pytest.mark.xdist_group("spark"),
        pytest.mark.timeout(400),
    ),
    "standalone": (
        pytest.mark.spark,
        pytest.mark.campaign,
        pytest.mark.xdist_group("spark"),
        pytest.mark.timeout(600),
    ),
}
FACTS = {
    "server": "a server",
    "versions": {"ackq": "1"},
    "machine": {"cpu": "a cpu", "cores": 2, "memory_gib": 1.0, "kernel": "Linux 6"},
    "settings": {"seed": 1},
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from benchmarks.__main__ import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, *arguments]
    return forked.run(command, timeout=600, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=MARKS.get(each, ())) for each in BENCHMARKS]
)
def test_a_smoke_run_reports_every_contestant(name: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    done = run(name, "--smoke", "--json", str(path))
    assert done.returncode == 0, done.stderr
    (result,) = from_json(json.loads(path.read_bytes()))
    assert result.benchmark == name
    found = {measure.contestant for measure in result.measures}
    wanted = CONTESTANTS.get(name)
    assert found == wanted if wanted else any("ackq" in contestant for contestant in found)
    assert all(contestant in done.stdout for contestant in found)
    assert all(math.isfinite(value) for measure in result.measures for value in measure.rounds)
    assert all(math.isfinite(value) for ratio in result.ratios for value in ratio.rounds)
    assert {"server", "versions", "machine", "settings"} <= set(result.facts)
    assert result.facts["settings"]["seed"] == 1
    assert ("commit" in result.facts["versions"]) == (commit() is not None)
    # It names no host, no path and no user.
    text = path.read_text()
    assert not [
        each
        for each in (str(tmp_path), os.uname().nodename, "127.0.0.1", str(Path.home()))
        if each in text
    ]


def test_a_case_measures_its_script_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    wanted = ["ack", "claims/forget", "topic/extend"]
    done = run("blocked", "--smoke", "--scripts", *wanted, "--json", str(path))
    assert done.returncode == 0, done.stderr
    (result,) = from_json(json.loads(path.read_bytes()))
    measured = [str(case) for case in facts.cases() if case.script in wanted]
    assert list(dict.fromkeys(measure.case for measure in result.measures)) == measured
    calls = {
        measure.case: measure.rounds
        for measure in result.measures
        if measure.figure == "slow calls"
    }
    assert calls["claims/forget: 3,000,000 messages"] == (1,)
    if Path("/proc/self/schedstat").exists():
        cpu = {
            measure.case: measure.rounds
            for measure in result.measures
            if measure.figure == blocked.CPU
        }
        assert list(cpu) == measured
        assert all(0 < value < 60_000 for values in cpu.values() for value in values)
    assert [ratio.what for ratio in result.ratios] == [
        f"{case}: over the idle loop, ms" for case in measured
    ]


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_a_commit_reports_what_was_changed_since(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert commit(tmp_path) is None
    git("init")
    (tmp_path / "file").write_text("old")
    git("add", "file")
    git("commit", "--message", "a file")
    hash_ = git("rev-parse", "HEAD")[:7]
    (tmp_path / "result.json").touch()
    assert commit(tmp_path) == hash_
    (tmp_path / "file").write_text("new")
    assert commit(tmp_path) == hash_ + "+"
    (tmp_path / "copy").mkdir()
    assert commit(tmp_path / "copy") is None


def test_all_runs_the_benchmarks_and_writes_one_file(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    wanted = ["delay", "topic"]
    done = run("all", "--smoke", "--only", *wanted, "--json", str(path))
    assert done.returncode == 0, done.stderr
    assert [each.benchmark for each in from_json(json.loads(path.read_bytes()))] == wanted


def test_a_name_that_is_no_benchmark_is_refused() -> None:
    done = run("cycel")
    assert done.returncode == 1
    assert "cycel" in done.stderr


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_says_what_it_is_for(name: str) -> None:
    assert benchmark(name).PURPOSE.endswith(".")


def a_result(rates: tuple[float, ...], benchmark: str = "topic") -> Result:
    return Result(
        benchmark,
        FACTS,
        [
            Measure(
                "one by one", "ackq <b>", "throughput", "messages/s", rates, more_is_better=True
            ),
            Measure(
                "one by one",
                "other",
                "throughput",
                "messages/s",
                (100.0, 101.0, 99.0),
                more_is_better=True,
            ),
        ],
        [Ratio.of("ackq / other", rates, (100.0, 101.0, 99.0), 2.0)],
        ["a note"],
    )


def test_a_result_survives_json() -> None:
    result = a_result((1.0, 2.0, 3.0))
    assert from_json(json.loads(json.dumps(to_json([result])))) == [result]


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"results": []}')
    done = run("compare", str(path), str(path))
    assert done.returncode == 1
    assert "not results" in done.stderr


def test_a_difference_is_distinguished_from_noise() -> None:
    old = a_result((100.0, 104.0, 96.0, 101.0, 99.0, 98.0)[:3])
    assert "within noise" in comparison_of([old], [a_result((101.0, 97.0, 103.0))])
    better = comparison_of([old], [a_result((150.0, 151.0, 149.0))])
    assert re.search(r"ackq <b>: throughput.* 1\.500 .*better", better)
    assert re.search(r"ackq <b>: throughput.*WORSE", comparison_of([old], [a_result((50.0,) * 3)]))


def test_a_comparison_says_what_else_differs() -> None:
    old, new = a_result((1.0,) * 3), a_result((1.0,) * 3)
    new.facts = {**FACTS, "versions": {"ackq": "2"}}
    text = comparison_of([old], [new, a_result((1.0,) * 3, "rsmq")])
    assert "versions ackq: 1 -> 2" in text
    assert "in one run only: rsmq" in text


def test_a_comparison_names_the_code_of_both_runs_even_where_it_is_the_same() -> None:
    old, new = a_result((1.0,) * 3), a_result((1.0,) * 3)
    new.facts = {**FACTS, "versions": {"ackq": "1", "commit": "8e15501+"}}
    assert "versions commit: None -> 8e15501+" in comparison_of([old], [new])
    assert "versions commit: 8e15501+ -> 8e15501+" in comparison_of([new], [new])


def test_a_comparison_ends_quietly_when_its_reader_has_seen_enough(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(to_json([a_result((1.0,) * 3)])))
    command = [sys.executable, "-m", "benchmarks", "compare", str(path), str(path)]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as nobody:
        done = subprocess.run(command, cwd=ROOT, stdout=nobody, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


def test_a_percentile_is_of_each_round_or_of_all_or_of_none() -> None:
    long = [float(number) for number in range(1, 101)]
    assert percentiles(0.99, [long, long]) == [99.0, 99.0]
    assert percentiles(0.99, [long[:50], long[50:]]) == [99.0]
    assert percentiles(0.999, [long]) == []


def test_figures_are_in_the_units_that_they_name() -> None:
    played = [Round(messages=4, seconds=0.002, server_seconds=0.001, cycles=[0.0005] * 100)]
    found = {each.figure: (each.unit, *each.rounds) for each in measures_of("", {"ackq": played})}
    assert found == {
        "throughput": ("messages/s", 2000.0),
        "cycle, p50": ("ms", 0.5),
        "cycle, p99": ("ms", 0.5),
        "server time": ("µs/message", 250.0),
    }
    assert played[0].client_us == 500.0


def test_a_ratio_has_its_target_on_the_right_side() -> None:
    more = Ratio.of("throughput", [6.0], [2.0], target=2)
    less = Ratio.of("server time", [6.0], [2.0], target=2, ceiling=True)
    assert more.rounds == less.rounds == (3.0,)
    assert [more.reached, less.reached] == [True, False]
    assert [more.verdict, less.verdict] == ["target >= 2: reached", "target <= 2: MISSED"]


def test_the_servers_time_is_all_that_it_used(plain_client: redis.Redis) -> None:
    def used() -> tuple[float, float]:
        info: Any = plain_client.info("cpu")
        return float(info["used_cpu_user"]), float(info["used_cpu_sys"])

    def busy() -> bool:
        for _ in range(200):
            plain_client.ping()
        return min(used()) > 0.01

    wait_until(busy, "the server to have used time of both kinds")
    settings = plain_client.connection_pool.connection_kwargs
    before = used()
    with contextlib.closing(ServerCpu(f"redis://{settings['host']}:{settings['port']}")) as cpu:
        assert sum(before) <= cpu.seconds() <= sum(used())


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel counts no CPU")
def test_the_cpu_of_a_script_is_that_of_its_calls_alone() -> None:
    with target(None) as server, Scene(server.url) as scene:
        thread = MainThread.of(scene.client)
        assert thread is not None
        run_idle_loops(scene.client, 20, 1, thread.cpu_ms)
        with scene.cpu.calls(thread, IDLE_SHA) as spent:
            scene.client.evalsha(IDLE_SHA.decode(), 0, 10)
            scene.client.eval(IDLE_LOOP, 0, 10_000_000)  # another command: not counted
            run_idle_loops(scene.client, 20, 2, thread.cpu_ms)
    assert len(spent) == 4  # the second measures how many turns take 20 ms
    assert spent[0] < min(spent[2:])


def test_each_contestant_is_first_in_turn() -> None:
    orders = list(rotations(["a", "b", "c"], 6))
    assert {order[0] for order in orders} == {"a", "b", "c"}
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)


def test_every_peer_has_its_file() -> None:
    assert all((HERE / peer.file).is_file() for peer in PEERS)


PEER_RUNS = [
    *(("worker", peer, ("--sleeping", "20", "--peers", peer.name)) for peer in PEERS),
    *(("memory", peer, ("--ids", "20", "--sizes", "100")) for peer in filling.PEERS.values()),
]


@pytest.mark.campaign
@pytest.mark.timeout(900)  # it is installed first
@pytest.mark.parametrize(
    ("name", "peer", "sizes"), PEER_RUNS, ids=[f"{run[0]}-{run[1].name}" for run in PEER_RUNS]
)
def test_every_peer_still_runs(
    name: str, peer: Peer, sizes: tuple[str, ...], tmp_path: Path
) -> None:
    if peer.node and not shutil.which("npm"):
        pytest.skip("npm is not installed")
    path = tmp_path / "result.json"
    done = run(name, "--messages", "20", "--rounds", "1", *sizes, "--json", str(path))
    assert done.returncode == 0, done.stderr
    (result,) = from_json(json.loads(path.read_bytes()))
    assert not [note for note in result.notes if peer.name in note.lower()]  # why it is left out
    assert peer.name in result.facts["versions"]
    assert peer.name in {measure.contestant.lower() for measure in result.measures}
