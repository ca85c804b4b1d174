"""A cluster: with a hash tag every operation works, on one node, and others can be read there."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from redis.cluster import RedisCluster

import ackq
from ackq.rsmq import RSMQ
from tests.rsmq.peers import Python
from tests.servers import CLUSTERS, Fleet, Survey, Target


@pytest.fixture
def cluster(survey: Survey, fleet: Fleet) -> Target:
    kind = survey.first(CLUSTERS)
    if kind is None:
        pytest.skip("ACKQ_TEST_SERVERS does not name the cluster")
    return fleet.get(kind)


@pytest.fixture
def client(cluster: Target) -> Any:
    with cluster.make_client() as client:
        yield client


def test_all_keys_of_a_namespace_share_a_slot(client: RedisCluster, token: str) -> None:
    with RSMQ(client, f"{{{token}}}", realtime=True, max_receives=1) as rsmq:
        rsmq.create_queue("q", vt=0)
        rsmq.create_queue("other")
        rsmq.receive_message("q", timeout=0.01)
        rsmq.send_messages("q", ["dead", "m"])
        while rsmq.receive_message("q"):
            pass
        keys = list(client.scan_iter(f"*{token}*"))
        assert len(keys) >= 6
        assert len({client.keyslot(key) for key in keys}) == 1


def test_many_clients_share_a_queue(cluster: Target, token: str) -> None:
    ns = f"{{{token}}}"
    clients = [cluster.make_client() for _ in range(4)]
    rsmqs = [RSMQ(client, ns) for client in clients]
    rsmqs[0].create_queue("q")

    def consume(rsmq: RSMQ) -> list[str]:
        got = []
        while messages := rsmq.receive_messages("q", 7, timeout=1.5):
            got += [message.message for message in messages]
            assert rsmq.delete_messages("q", [message.id for message in messages]) == len(messages)
        return got

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(consume, rsmq) for rsmq in rsmqs[2:]]
        sending = [
            pool.submit(rsmq.send_messages, "q", [f"{number}:{n}" for n in range(500)])
            for number, rsmq in enumerate(rsmqs[:2])
        ]
        for future in sending:
            future.result(30)
        got = [text for future in waiting for text in future.result(30)]
    assert sorted(got) == sorted(f"{number}:{n}" for number in range(2) for n in range(500))
    for rsmq, client in zip(rsmqs, clients, strict=True):
        rsmq.close()
        client.close()


def test_a_notice_is_heard_on_every_node(client: RedisCluster, token: str) -> None:
    ns = f"{{{token}}}"
    listeners = []
    for node in client.get_primaries():
        listener = redis.Redis(host=node.host, port=node.port).pubsub()
        listener.subscribe(f"{ns}:rt:q")
        assert listener.get_message(timeout=5)["type"] == "subscribe"
        listeners.append(listener)
    with RSMQ(client, ns, realtime=True) as rsmq:
        rsmq.create_queue("q")
        rsmq.send_message("q", "m")
    for listener in listeners:
        assert listener.get_message(timeout=5)["data"] == b"1"
        listener.close()


def test_a_namespace_without_a_hash_tag_is_refused(client: RedisCluster, token: str) -> None:
    with RSMQ(client, token) as rsmq, pytest.raises(ackq.CrossSlotError, match="name it"):
        rsmq.create_queue("q")


def test_the_layout_is_that_of_the_others(client: RedisCluster, token: str) -> None:
    """Their scripts pass times and ids as keys, so a cluster refuses them; plain commands work."""
    ns = f"{{{token}}}"
    node = client.get_node_from_key(ns)
    assert node is not None
    theirs = Python(f"redis://{node.host}:{node.port}", ns)
    with RSMQ(client, ns) as ours:
        theirs.create("q", vt=5)
        id = theirs.send("q", "m")
        with pytest.raises(redis.ResponseError, match=r"slot|local"):
            theirs.receive("q")
        got = ours.receive_message("q")
        assert got is not None
        assert (got.id, got.message) == (id, "m")
        assert theirs.attributes("q") == {
            name: getattr(ours.get_queue_attributes("q"), name) for name in theirs.attributes("q")
        }
        assert theirs.delete("q", id)
    theirs.close()
