"""What the command line shows of the times of messages."""

import json
import time

import pytest
import redis

from tests.cli.conftest import Run


def test_stats_and_peek_show_times_if_messages_have_them(
    ackq: Run, plain_client: redis.Redis, name: str
) -> None:
    def oldest(*options: str) -> float | None:
        found: float | None = json.loads(ackq("stats", name, "--json", *options).output)[
            "oldest_ready"
        ]
        return found

    ago = time.time() - 60
    plain_client.lpush(name, b'{"id":"a","made":%d}' % ago, b'{"id":"b"}')
    assert oldest() is None
    assert oldest("--time-field", "made") == pytest.approx(60, abs=20)
    assert ackq("peek", name).output.count("\t") == 6  # no column without times
    first, second = (
        line.split("\t") for line in ackq("peek", name, "--time-field", "made").output.splitlines()
    )
    assert second[2] == "-"
    assert first[2].startswith(time.strftime("%Y", time.localtime(ago)))
    lines = ackq("peek", name, "--time-field", "made", "--json").output.splitlines()
    assert [json.loads(line)["created_at"] for line in lines] == [int(ago), None]
    assert "time_field" in ackq("peek", name, "--time-field", "a b", code=3).output


def test_push_adds_the_time_to_objects_that_have_none(
    ackq: Run, plain_client: redis.Redis, name: str
) -> None:
    ago = time.time() - 60
    ackq("push", name, "--time-field", "made", '{"id":"a"}', f'{{"id":"b","made":{ago:.0f}}}')
    ackq("push", name, "--time-field", "made", input='{"id":"c"}\n')
    ackq("push", name, "--raw", "--time-field", "made", "{}", code=2)
    assert "time_field" in ackq("push", name, "--time-field", "a b", "{}", code=3).output
    lines = ackq("peek", name, "--time-field", "made", "--json").output.splitlines()
    ages = [time.time() - json.loads(line)["created_at"] for line in lines]
    assert ages == pytest.approx([0, 60, 0], abs=20)
    assert plain_client.lindex(name, 1) == b'{"id":"b","made":%d}' % round(ago)
