"""A cluster is recognised, whichever product its nodes run."""

from collections.abc import Callable
from typing import Any

import click.testing
import pytest
from redis.cluster import RedisCluster

import ackq
from ackq.cli import main
from ackq.delay import DelayQueue
from ackq.ops.doctor import Doctor
from ackq.queue.claims_client import Claims
from ackq.queue.staging_client import Staging
from ackq.rsmq import RSMQ
from ackq.topic import Topic
from tests.servers import CLUSTERS, Fleet, Survey

#: The first write of each product: ``write(client, name)``.
WRITES: dict[str, Callable[[Any, str], object]] = {
    "queue": lambda client, name: ackq.Queue(client, name).push({"n": 1}),
    "rsmq": lambda client, name: RSMQ(client, name).create_queue("q"),
    "topic": lambda client, name: Topic(client, name).publish(b"x"),
    "delay": lambda client, name: DelayQueue(client, name).push("key", b"x"),
    "claims": lambda client, name: Claims(client, name, "query").begin(),
    "staging": lambda client, name: Staging(client, name, "query").commit(0, []),
}


@pytest.fixture(params=CLUSTERS)
def cluster(request: pytest.FixtureRequest, survey: Survey, fleet: Fleet) -> RedisCluster:
    """A client of each cluster, one after the other."""
    if request.param not in survey.offers:
        pytest.skip(f"the run has no {request.param}")
    client = fleet.get(request.param).control
    assert isinstance(client, RedisCluster)
    return client


@pytest.mark.parametrize("product", WRITES)
def test_a_name_without_a_hash_tag_is_refused_before_anything_is_written(
    cluster: RedisCluster, product: str, token: str
) -> None:
    with pytest.raises(ackq.CrossSlotError, match=rf"name it '\{{{token}"):
        WRITES[product](cluster, token)
    assert not list(cluster.scan_iter(f"*{token}*"))
    WRITES[product](cluster, f"{{{token}}}")


def test_the_command_line_and_the_doctor_recognise_it(cluster: RedisCluster, token: str) -> None:
    node = cluster.get_primaries()[0]
    url = f"redis://{node.host}:{node.port}/0"
    done = click.testing.CliRunner().invoke(main, ["push", token, "{}", "--url", url])
    assert (done.exit_code, f"name it '{{{token}}}'" in done.stderr) == (3, True)
    with cluster.get_redis_connection(node) as client, Doctor(client) as doctor:
        found = {finding.check: finding for finding in doctor.examine().findings}
    assert found["cluster"].verdict == "ok"
    assert found["server"].text.endswith(", cluster")
