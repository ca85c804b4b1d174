"""``ackq bench`` measures on the user's server and leaves nothing behind."""

import json
import signal
import subprocess
import sys

import pytest
import redis

from ackq.bench.figures import from_json
from tests import forked
from tests.waiting import wait_until

BENCH = [sys.executable, "-c", "from ackq.cli import main; main()", "bench"]


def traces(client: redis.Redis) -> list[bytes]:
    return list(client.scan_iter("ackq-bench-*", count=1000))


def test_it_measures_all_contestants_and_leaves_nothing(
    url: str, plain_client: redis.Redis
) -> None:
    command = [*BENCH, "--url", url, "--seconds", "0.2", "--batch", "7", "--json"]
    done = forked.run(command, capture_output=True, text=True, check=True)
    (result,) = from_json(json.loads(done.stdout))
    measured = {(measure.case, measure.contestant) for measure in result.measures}
    players = {"bare list", "streams", "ackq"}
    assert measured == {(case, player) for case in ("one by one", "by 7") for player in players}
    assert "deleted afterwards" in done.stderr
    assert not traces(plain_client)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_leaves_nothing_when_it_is_interrupted(
    url: str, plain_client: redis.Redis, number: signal.Signals
) -> None:
    command = [*BENCH, "--url", url, "--seconds", "600"]
    with forked.Popen(command, stderr=subprocess.PIPE) as process:
        wait_until(lambda: traces(plain_client), "the benchmark runs")
        process.send_signal(number)
        assert process.wait(20) == 130
    assert not traces(plain_client)


def test_a_batch_that_no_call_could_move_is_refused(url: str) -> None:
    command = [*BENCH, "--url", url, "--batch", "1000", "--size", "1048576"]
    done = forked.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "at most" in done.stderr
