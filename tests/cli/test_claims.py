"""``ackq claims`` lists the claims of Spark queries and releases them."""

from collections.abc import Iterator

import pytest
import redis

from ackq import Queue
from ackq.errors import Fenced
from ackq.queue.claims_client import Claims
from tests.cli.conftest import Run


@pytest.fixture
def nightly(plain_client: redis.Redis, name: str) -> Iterator[Claims]:
    """A group that holds two of five messages; another, hourly, holds one."""
    with (
        Queue(plain_client, name) as queue,
        Claims(plain_client, name, "nightly") as nightly,
        Claims(plain_client, name, "hourly") as hourly,
    ):
        queue.push_many([{"id": str(number)} for number in range(5)])
        for group, messages in ((nightly, 2), (hourly, 1)):
            group.begin()
            group.claim(0, messages=messages)
        yield nightly


def test_each_group_is_listed_and_released_and_its_driver_gets_an_error(
    ackq: Run, name: str, nightly: Claims, plain_client: redis.Redis
) -> None:
    rows = [row.split("\t") for row in ackq("claims", "list", name).output.splitlines()]
    assert [row[:3] for row in rows] == [["hourly", "1", "1"], ["nightly", "1", "2"]]
    assert all(row[3].startswith("in 604,") for row in rows)
    assert ackq("claims", "release", name, "--group", "nightly", "--yes").output == "2\n"
    assert len(ackq("claims", "list", name).output.splitlines()) == 1
    assert plain_client.llen(name) == 4
    with pytest.raises(Fenced):
        nightly.beat()
    assert ackq("claims", "release", name, "--yes").output == "1\n"
    assert ackq("claims", "release", name, "--yes").output == "0\n"


def test_a_claim_that_is_being_returned_is_reported(
    ackq: Run, name: str, nightly: Claims, plain_client: redis.Redis
) -> None:
    plain_client.zadd(f"{name}HELD", {f"{name}CLAIM:nightly:1": 0, f"{name}CLAIM:hourly:1": 1})
    listed = {line.split("\t")[3] for line in ackq("claims", "list", name).output.splitlines()}
    assert "is going back" in listed
    assert any(each.endswith(" s ago") for each in listed)
