"""The minutes that workers and a watcher record are the account, whoever is killed meanwhile."""

import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
import redis

from ackq import Queue
from ackq.ops.chronicle import minutes, recorder
from ackq.ops.chronicle.reader import read_past
from ackq.ops.chronicle.recorder import Recorder
from ackq.ops.overview import Overview
from tests import forked
from tests.servers import private_server
from tests.waiting import wait_until

MESSAGES, ROUNDS = 300, 3
HANDLER = """
from ackq.worker import Reject
def handle(message):
    if message.json()["number"] % 10 == 0:
        raise Reject("odd")
"""


def test_the_sums_of_the_minutes_are_the_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A row a second, so that there are several.
    monkeypatch.setattr(minutes, "MINUTE", 1)
    monkeypatch.setattr(recorder, "MINUTE", 1)
    (tmp_path / "tasks.py").write_text(HANDLER)
    over = threading.Event()

    def watch(url: str) -> None:
        with (
            redis.Redis.from_url(url) as client,
            Overview(client, ["jobs"], window=600.0) as overview,
            Recorder(client) as recording,
        ):
            while not over.wait(0.1):
                if (snapshot := overview.read()).up:
                    recording.note(snapshot)

    program = [sys.executable, "-c", "from ackq.cli import main; main()", "work", "tasks:handle"]
    path = os.pathsep.join((str(tmp_path), os.environ["PYTHONPATH"]))
    with private_server(tmp_path / "server") as server, Queue.from_url(server.url, "jobs") as queue:
        queue.counters(600.0)

        def reached(acked: int) -> bool:
            return queue.counters(600.0).acked > acked

        watcher = threading.Thread(target=watch, args=(server.url,))
        watcher.start()
        try:
            for turn in range(ROUNDS):
                first = turn * MESSAGES
                half = first * 9 // 10 + MESSAGES // 2
                queue.push_many(
                    [{"id": str(n), "number": n} for n in range(first, first + MESSAGES)]
                )
                with forked.Popen(
                    [*program, "-q", "jobs", "--lease", "1", "--concurrency", "2"],
                    cwd=tmp_path,
                    env={**os.environ, "ACKQ_REDIS_URL": server.url, "PYTHONPATH": path},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                ) as worker:
                    wait_until(partial(reached, half), "some acks")
                    if turn == 1:
                        server.kill()
                        server.start()
                    elif turn == 0:
                        worker.send_signal(signal.SIGKILL)
                        continue
                    wait_until(lambda: queue.stats().ready == 0, "the worker to take all")
                    wait_until(lambda: queue.stats().in_flight == 0, "the worker to end all")
                    worker.send_signal(signal.SIGTERM)
            with redis.Redis.from_url(server.url) as client:

                def sums() -> dict[str, int]:
                    rows, _ = read_past(client, "list", "jobs", 3600.0)
                    return {
                        "acked": sum(row.counts.get("acked", 0) for row in rows),
                        "pushed": sum(row.counts.get("pushed", 0) for row in rows),
                        "rejected": sum(row.dead.get("rejected", 0) for row in rows),
                        "rows": min(2, len(rows)),
                    }

                total = MESSAGES * ROUNDS
                account = {"acked": total * 9 // 10, "pushed": total, "rejected": total // 10}
                wait_until(lambda: sums() == {**account, "rows": 2}, "the sums to be the account")
                counters = queue.counters(600.0)
                assert (counters.acked, counters.pushed) == (account["acked"], account["pushed"])
        finally:
            over.set()
            watcher.join()
