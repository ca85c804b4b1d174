"""Roles of delay queues, partitioned or not, topics and RSMQ queues: each can do what it is for."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import redis
from redis.exceptions import NoPermissionError
from starlette.testclient import TestClient

from ackq.core.claim_groups import Claim
from ackq.delay import DelayClaims, DelayQueue, PartitionedDelayQueue
from ackq.errors import ConfigurationError
from ackq.metrics.exporter import Exporter
from ackq.ops.acl import rules
from ackq.ops.trials import is_denial
from ackq.rsmq import RSMQ
from ackq.topic import Topic
from ackq.web import application
from tests.metrics.test_exporter import get
from tests.ops.acl.conftest import AsRole, has_selectors
from tests.web.test_operating import ORIGIN
from tests.web.test_pages import path_of

Operation = Callable[[Any, str], object]
#: The partitions of the delay queue. The last has a number of two digits.
PARTITIONS = 12
LAST = PARTITIONS - 1


def _taken(queue: DelayQueue | PartitionedDelayQueue, _: str) -> Any:
    (message,) = queue.take(1)
    return message


def _claimed(queue: DelayQueue | PartitionedDelayQueue, _: str) -> None:
    """Do all that a driver does with claims."""
    partition = f":{LAST}" if isinstance(queue, PartitionedDelayQueue) else ""
    pool = queue._driver.route._pool  # type: ignore[union-attr]
    with DelayClaims(redis.Redis(connection_pool=pool), queue.name + partition, "group") as group:
        for batch in (1, 2):
            group.begin()
            assert group.open() == []
            assert group.claim(batch - 1, messages=1) == Claim(batch, 1)
            group.beat()
            assert group.readable(1, 2) == [Claim(batch, 1)]
            assert None not in group.read(batch, 0, 1)
            assert (group.release() if batch == 1 else group.ack(batch)) == 1


#: What can be done with a queue of each kind.
OPERATIONS: dict[str, dict[str, Operation]] = {
    "delay": {
        "push": lambda queue, _: queue.push("new", b"{}", delay=60),
        "take": _taken,
        "wait": lambda queue, _: (queue.take(9), queue.take(1, timeout=0.02)),
        "ack": lambda queue, _: queue.delete(_taken(queue, _)),
        "nack": lambda queue, _: queue.nack(_taken(queue, _), delay=60),
        "reject": lambda queue, _: queue.reject(_taken(queue, _)),
        "extend": lambda queue, _: queue.extend(_taken(queue, _)),
        "count": lambda queue, _: queue.stats(),
        "peek": lambda queue, _: queue.peek(),
        "find": lambda queue, _: [queue.find(each) for each in ("a", "b", "later")],
        "search": lambda queue, _: queue.search({"n": 1}),
        "watch": lambda queue, _: queue.counters(),
        "read the dead": lambda queue, _: queue.dead_letters(),
        "cancel": lambda queue, _: queue.cancel("later"),
        "redrive": lambda queue, _: queue.redrive(1),
        "drop": lambda queue, _: queue.drop_dead_letters("1-1"),
        "purge": lambda queue, _: queue.purge(dead=True),
        "claim": _claimed,
        "list claims": lambda queue, _: queue.claims(),
        "release claims": lambda queue, _: queue.release_claims("dead"),
    },
    "topic": {
        "publish": lambda topic, _: topic.publish(b"{}"),
        "consume": lambda topic, _: topic.consume("c", 1),
        "commit": lambda topic, _: topic.commit(topic.consume("c", 1)),
        "subscribe": lambda topic, _: topic.subscribe("d"),
        "seek": lambda topic, _: topic.seek("c", 1),
        "lag": lambda topic, _: topic.lag("c"),
        "oldest": lambda topic, _: topic.oldest(),
        "trim": lambda topic, _: topic.trim(1),
        "unsubscribe": lambda topic, _: topic.unsubscribe("c"),
    },
    "rsmq": {
        "send": lambda rsmq, q: rsmq.send_message(q, "x"),
        "receive": lambda rsmq, q: rsmq.receive_message(q, vt=0),
        "delete": lambda rsmq, q: rsmq.delete_message(q, "0" * 32),
        "visibility": lambda rsmq, q: rsmq.change_message_visibility(q, "0" * 32, 5),
        "attributes": lambda rsmq, q: rsmq.get_queue_attributes(q),
        "count": lambda rsmq, q: rsmq.counters(q),
        "read the dead": lambda rsmq, q: rsmq.dead_letters(q),
        "find": lambda rsmq, q: rsmq.find(q, "0" * 32),
        "set": lambda rsmq, q: rsmq.set_queue_attributes(q, vt=5),
        "redrive": lambda rsmq, q: rsmq.redrive(q, 1),
        "drop": lambda rsmq, q: rsmq.drop_dead_letters(q, "1-1"),
        "delete the queue": lambda rsmq, q: rsmq.delete_queue(q),
        "create": lambda rsmq, q: rsmq.create_queue(q),
    },
}
OPERATIONS["partitioned"] = {
    **OPERATIONS["delay"],
    "drop": lambda queue, _: queue.drop_dead_letters("1-1", partition=LAST),
}
_DELAY_SEEN = {"count", "peek", "find", "search", "watch", "read the dead"}
_TOPIC_SEEN = {"lag", "oldest"}
_RSMQ_SEEN = {"attributes", "count", "find", "read the dead"}
#: What each role is for.
FOR: dict[str, dict[str, set[str]]] = {
    "delay": {
        "producer": {"push"},
        "consumer": {"take", "wait", "ack", "nack", "reject", "extend"},
        "claimer": {"claim", "count", "list claims", "release claims"},
        "viewer": _DELAY_SEEN,
        "operator": {
            *_DELAY_SEEN,
            "cancel",
            "redrive",
            "drop",
            "purge",
            "list claims",
            "release claims",
        },
    },
    "topic": {
        "producer": {"publish"},
        "consumer": {"consume", "commit", "subscribe", "seek", *_TOPIC_SEEN},
        "viewer": _TOPIC_SEEN,
        "operator": {*_TOPIC_SEEN, "subscribe", "seek", "trim", "unsubscribe"},
    },
    "rsmq": {
        "producer": {"send"},
        "consumer": {"receive", "delete", "visibility"},
        "viewer": _RSMQ_SEEN,
        "operator": {*_RSMQ_SEEN, "set", "redrive", "drop", "delete the queue", "create"},
    },
}
FOR["partitioned"] = FOR["delay"]
#: What takes the same commands on the same keys.
BESIDES: dict[tuple[str, str], set[str]] = {
    ("delay", "operator"): {"push"},
    ("partitioned", "operator"): {"push"},
    ("topic", "producer"): {"oldest", "trim"},
    ("rsmq", "consumer"): {"send"},
    ("rsmq", "operator"): {"send"},
}
#: The same with rules for Redis 6.2.
BESIDES_WITHOUT_SELECTORS = BESIDES | {
    ("delay", "claimer"): {"cancel", "peek", "purge"},
    ("partitioned", "claimer"): {"cancel", "peek", "purge"},
    ("partitioned", "consumer"): {"count", "peek"},
    ("topic", "consumer"): {"trim"},
    ("rsmq", "consumer"): {"send", "count"},
}


def stock(admin: redis.Redis, kind: str, name: str) -> None:
    """Make a queue with a message in every state, in place of what is there."""
    admin.delete(*admin.keys(f"{name}*"), "none")
    if kind == "partitioned":
        stock(admin, "delay", f"{name}:{LAST}")
        admin.hset(f"{name}:group", "shares", PARTITIONS)
    elif kind == "delay":
        with DelayQueue(admin, name) as queue:
            for key, delay in (("a", 0), ("b", 0), ("later", 600)):
                queue.push(key, b"{}", delay=delay)
            queue.reject(*queue.take(1))
            queue.nack(*queue.take(1), delay=0, error=ValueError("its viewers read this, too"))
    elif kind == "topic":
        with Topic(admin, name) as topic:
            topic.publish_many([b"{}"] * 3)
            topic.subscribe("c")
    else:
        namespace, _, queue_name = name.rpartition(":")
        admin.delete(f"{namespace}:QUEUES")
        with RSMQ(admin, namespace) as rsmq:
            rsmq.create_queue(queue_name)
            rsmq.send_message(queue_name, "x")


def passed(client: redis.Redis, admin: redis.Redis, kind: str, name: str, keep: bool) -> set[str]:
    """Return what the server lets this user do."""
    namespace, _, queue_name = name.rpartition(":")
    kinds: dict[str, Callable[[], Any]] = {
        "delay": lambda: DelayQueue(client, name),
        "partitioned": lambda: PartitionedDelayQueue(client, name, PARTITIONS),
        "topic": lambda: Topic(client, name),
        "rsmq": lambda: RSMQ(client, namespace),
    }
    found = set()
    with kinds[kind]() as opened:
        for what, operation in OPERATIONS[kind].items():
            if not keep:
                stock(admin, kind, name)
                if what == "create":
                    admin.delete(*admin.keys(f"{namespace}:*"))
            try:
                operation(opened, queue_name)
            except redis.ResponseError as error:
                if not is_denial(error):
                    raise
            else:
                found.add(what)
    return found


CASES = [(kind, role) for kind, roles in FOR.items() for role in roles]


def as_user(as_role: AsRole, role: str, name: str, kind: str) -> redis.Redis:
    """Return a client with this role of a queue of `FOR`."""
    if kind == "partitioned":
        return as_role(role, name, kind="delay", partitions=PARTITIONS)
    return as_role(role, name, kind=kind)


@pytest.mark.parametrize(("kind", "role"), CASES)
def test_a_role_of_another_kind_can_do_what_it_is_for_and_nothing_else(
    as_role: AsRole, admin: redis.Redis, token: str, kind: str, role: str
) -> None:
    name, neighbour = f"{token}:q", f"{token}:q2"
    client = as_user(as_role, role, name, kind)
    found = passed(client, admin, kind, name, keep=False)
    allowed = BESIDES if has_selectors(admin) else BESIDES_WITHOUT_SELECTORS
    assert FOR[kind][role] <= found <= FOR[kind][role] | allowed.get((kind, role), set())
    stock(admin, kind, neighbour)
    before = {key: admin.dump(key) for key in admin.keys(f"{neighbour}*")}
    assert passed(client, admin, kind, neighbour, keep=True) <= {"lag"}
    assert {key: admin.dump(key) for key in admin.keys(f"{neighbour}*")} == before
    for command in (("FLUSHDB",), ("KEYS", "*"), ("CONFIG", "GET", "*"), ("ACL", "LIST")):
        with pytest.raises(NoPermissionError):
            client.execute_command(*command)
    admin.delete(*admin.keys(f"{token}*"), f"{token}:QUEUES")


@pytest.mark.parametrize("kind", FOR)
def test_the_page_and_the_exporter_run_as_a_viewer(
    as_role: AsRole, admin: redis.Redis, token: str, kind: str
) -> None:
    name = f"{token}:q"
    stock(admin, kind, name)
    client = as_user(as_role, "viewer", name, kind)
    shown = name
    if kind == "partitioned":
        kind, shown = "delay", f"{name}:{LAST}"
    with TestClient(application(client, [name]), base_url=ORIGIN) as http:
        paths = ["/", *(path_of("queue", kind=kind, name=each) for each in {name, shown})]
        found: Any = admin.zrange(f"{shown}:z" if kind == "delay" else name, 0, -1)
        ids = [each.decode() for each in found]
        if kind != "topic":
            paths += [path_of("dead", kind=kind, name=shown)]
            paths += [path_of("find", kind=kind, name=shown, q=each) for each in (*ids, "0" * 32)]
        for path in paths:
            reply = http.get(path)
            assert reply.status_code == 200, reply.text
            assert not re.search("cannot be read|NOPERM|no permission", reply.text)
    with Exporter(client, [name]) as exporter:
        text = get(exporter.address, "/metrics")[2].decode()
        assert f'ackq_backlog{{queue="{name}",kind="{kind}"}}' in text
    admin.delete(*admin.keys(f"{token}*"))


@pytest.mark.parametrize("role", FOR["partitioned"])
def test_a_role_of_all_partitions_covers_these_and_no_other_queue(
    as_role: AsRole, name: str, role: str
) -> None:
    client = as_user(as_role, role, name, "partitioned")
    for part in range(PARTITIONS):
        assert client.type(f"{name}:{part}:z") == b"none"
    others = (PARTITIONS, 20, 100, 111, -1, "01", "1x", "x", "[0-9]", "")
    for key in (f"{name}:z", f"{name}z", *(f"{name}:{each}:z" for each in others)):
        with pytest.raises(NoPermissionError):
            client.type(key)


@pytest.mark.parametrize(
    "count", [1, 2, 9, 10, 11, 20, 21, 99, 100, 101, 110, 256, 999, 1000, 1024]
)
def test_the_patterns_of_partitions_match_their_numbers_and_no_others(count: int) -> None:
    words = rules("q", "producer", kind="delay", partitions=count, selectors=False)
    patterns = [word.removeprefix("~") for word in words if word.endswith(":wake")]
    assert len(patterns) <= 5
    matched = re.compile("|".join(patterns)).fullmatch
    assert [each for each in range(1200) if matched(f"q:{each}:wake")] == [*range(count)]
    assert not any(matched(f"q:{each}:wake") for each in ("", "00", "01", "007", "1x"))


def test_a_producer_of_rsmq_publishes_on_the_channel_of_its_queue_only(
    as_role: AsRole, admin: redis.Redis, token: str
) -> None:
    name = f"{token}:q"
    stock(admin, "rsmq", name)
    client = as_role("producer", name, kind="rsmq")
    with RSMQ(client, token, realtime=True) as rsmq, admin.pubsub() as heard:
        heard.subscribe(f"{token}:rt:q")
        assert heard.get_message(timeout=5)
        rsmq.send_message("q", "x")
        notice = heard.get_message(timeout=5)
        assert notice is not None
        assert notice["data"] == b"2"
    with pytest.raises(NoPermissionError):
        client.publish(f"{token}:rt:q2", "x")
    admin.delete(*admin.keys(f"{token}*"))


def test_a_role_that_a_kind_lacks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="a role is one of producer, consumer, viewer, op"):
        rules("prices", "worker", kind="topic")
    with pytest.raises(ConfigurationError, match="only delay queues have partitions"):
        rules("prices", "viewer", kind="topic", partitions=2)
    with pytest.raises(ConfigurationError, match="partitions"):
        rules("prices", "viewer", kind="delay", partitions=1025)
    with pytest.raises(ConfigurationError, match="<namespace>:<queue>"):
        rules("legacy", "viewer", kind="rsmq")
