"""The metrics of queues: true figures, in a format that Prometheus's own parser reads."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector as RegistryCollector

from ackq import Groups, Queue
from ackq.delay import DelayQueue, PartitionedDelayQueue
from ackq.membership.shards import shard_names
from ackq.metrics import Collector
from ackq.metrics.families import Families, Family, Labels
from ackq.metrics.queues import MAX_REASONS, queue_metrics
from ackq.ops.readings import Reading, Totals
from ackq.rsmq import RSMQ
from ackq.sharded import ShardedQueue
from ackq.topic import Topic
from ackq.worker import Worker
from tests.kinds.stock import PARTS, all_stocks
from tests.servers import Client, Target
from tests.waiting import wait_until

#: A sample by its name and its labels.
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(collector: Collector) -> Samples:
    """Return all samples, as Prometheus's parser reads them."""
    return parsed(as_text(collector))


def as_text(collector: Collector) -> str:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


def parsed(text: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.type != "unknown", family.name
        assert family.documentation, family.name
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, f"{key} twice"
            found[key] = sample.value
    return found


def value(samples: Samples, metric: str, **labels: str) -> float:
    return samples[metric, frozenset(labels.items())]


@pytest.fixture
def client(target: Target) -> Iterator[Client]:
    with contextlib.closing(target.make_client()) as made:
        yield made


def test_every_kind_of_queue_is_reported_with_totals(client: Client, token: str) -> None:
    with all_stocks(client, token) as stocks, Collector(client) as collector:
        samples = scrape(collector)  # consumers count from now on
        for each in stocks.values():
            labels = {"queue": each.name, "kind": each.kind}
            assert value(samples, "ackq_backlog", **labels) == each.backlog
            for state, count in each.states.items():
                assert value(samples, "ackq_messages", state=state, **labels) == count
            for consumer, lag in each.lags.items():
                assert value(samples, "ackq_topic_lag", queue=each.name, consumer=consumer) == lag
        reported = [labels for name, labels in samples if name == "ackq_backlog"]
        assert len(reported) == len(stocks)
        assert value(samples, "ackq_search_complete") == 1
        assert {v for (name, _), v in samples.items() if name == "ackq_up"} == {1}
        names = {each: stock.name for each, stock in stocks.items()}
        namespace = names["rsmq"].removesuffix(":mails")
        with (
            DelayQueue(client, names["delay"]) as delay,
            PartitionedDelayQueue(client, names["partitioned"], PARTS) as parts,
            RSMQ(client, namespace, max_receives=1) as rsmq,
            Topic(client, names["topic"]) as topic,
        ):
            delay.push("c", b"4")
            delay.reject(*delay.take(3), error=ValueError("no"))
            parts.push("e", b"5")
            parts.purge()
            rsmq.delete_message("mails", rsmq.send_message("mails", "four"))
            rsmq.receive_message("mails", vt=0)
            wait_until(lambda: not rsmq.receive_message("mails", vt=0), "all to die but the hidden")
            topic.publish_many([b"4", b"5"])
            topic.trim(1)
        samples = scrape(collector)

    def total(metric: str, each: str, **labels: str) -> float | None:
        labels |= {"queue": stocks[each].name, "kind": stocks[each].kind}
        return samples.get((f"ackq_{metric}_total", frozenset(labels.items())))

    assert total("pushed", "delay") == 1
    assert total("taken", "delay") == 3
    assert total("dead", "delay", reason="rejected") == 3
    assert total("pushed", "partitioned") == 1
    assert total("dropped", "partitioned") == 5
    # RSMQ counts since the queue was created: three are dead, four are stored, one was deleted.
    assert total("pushed", "rsmq") == 8
    assert total("acked", "rsmq") == 1
    assert total("taken", "rsmq") == 6
    # Before Redis 7 a stream does not know how many entries it had.
    assert total("dead", "rsmq", reason="max receives") in (5, None)
    assert total("returned", "rsmq") is None
    assert total("pushed", "topic") == 5
    assert total("dropped", "topic") == 4
    position = {"queue": names["topic"], "consumer": "billing"}
    assert value(samples, "ackq_topic_position", **position) == 1


#: What follows the token in names of queues, and what only consumers may have in their names.
HOSTILE = ('"', 'a",kind="x', "{a}b", "<script>", "ünï", "a b", "{'x':1}", "#", "\u2028", "$(x)")
WORSE = ('a"} 1', "\\", '\\"', "\\n")


def test_hostile_names_are_read_back_as_they_are(plain_client: redis.Redis, token: str) -> None:
    names = {token + each for each in HOSTILE}
    for name in names:
        plain_client.zadd(f"{name}BACKUP", {"key": 1e15})
    consumers = {token + each for each in WORSE}
    for consumer in consumers:
        plain_client.set(f"{token}:consumers:{consumer}", "0")
    plain_client.set(f"{token}:nextIndex", "1")
    with Collector(plain_client) as collector:
        text = as_text(collector)
    samples = parsed(text)
    assert {dict(labels)["queue"] for name, labels in samples if name == "ackq_paused"} == names
    assert {dict(labels)["consumer"] for name, labels in samples if "lag" in name} == consumers
    for line in text.rstrip("\n").split("\n"):
        assert line.startswith(("# HELP ackq_", "# TYPE ackq_", "ackq_"))


def test_the_exporters_text_is_that_of_prometheus_client(
    plain_client: redis.Redis, token: str
) -> None:
    """Sample by sample, in both formats, also for names that need escaping."""
    for each in HOSTILE:
        plain_client.zadd(f"{token}{each}BACKUP", {"key": 1e15})
    with all_stocks(plain_client, token), Collector(plain_client) as collector:
        collector.prepare()
        families = [*collector.families()]
    hostile = [Labels.of(("queue",), (each,)) for each in ('a\nb"c\\', "\\n", "")]
    families.append(
        Family(
            "ackq_x",
            "gauge",
            "Text of any kind.",
            ("queue",),
            labels=hostile,
            numbers=[0.5, 1, None],
        )
    )
    registry = CollectorRegistry()
    registry.register(Fixed([family.metric() for family in families]))
    encoders: tuple[tuple[Any, Any, bool], ...] = (
        (generate_latest, text_string_to_metric_families, False),
        (generate_openmetrics, parse_openmetrics, True),
    )
    for encode, parse, openmetrics in encoders:
        text = Families(families).text(openmetrics)
        expected = encode(registry).decode()
        own, reference = ([*parse(each)] for each in (text, expected))
        # The old format has no place for the times at which counting began.
        assert own == [each for each in reference if openmetrics or "_created" not in each.name]
        assert text.endswith("# EOF\n") == openmetrics


class Fixed(RegistryCollector):
    """Metrics that were collected before."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


def test_openmetrics_has_the_time_at_which_counting_began(
    plain_client: redis.Redis, name: str
) -> None:
    with Queue(plain_client, name) as queue, Collector(plain_client, [name]) as collector:
        began = float(plain_client.time()[0])
        scrape(collector)  # consumers count from now on
        queue.push_many([{"id": str(number)} for number in range(3)])
        messages = queue.pop_many(3)
        queue.ack(*messages[:2])
        registry = CollectorRegistry()
        registry.register(collector)
        families: Any = parse_openmetrics(generate_openmetrics(registry).decode())
        found = {sample.name: sample.value for family in families for sample in family.samples}
    assert found["ackq_taken_total"] == 3
    assert found["ackq_acked_total"] == 2
    assert found["ackq_returned_total"] == 0
    assert began <= found["ackq_taken_created"] <= float(plain_client.time()[0]) + 1


def test_every_change_shows_in_the_next_scrape(plain_client: redis.Redis, token: str) -> None:
    jobs, namespace = f"{token}jobs", f"{token}ns"
    with (
        Queue(plain_client, jobs) as queue,
        DelayQueue(plain_client, f"{token}delay") as delay,
        Topic(plain_client, f"{token}topic") as topic,
        RSMQ(plain_client, namespace) as rsmq,
        Collector(
            plain_client, [jobs, f"{token}delay", f"{token}topic", f"{namespace}:mails"]
        ) as collector,
    ):
        rsmq.create_queue("mails")
        delay.push("first", b"{}")
        topic.publish(b"{}")
        pushed = {"messages ready", "backlog", "pushed_total"}
        taken = {"messages ready", "messages in_flight", "taken_total"}
        changes: tuple[tuple[Callable[[], object], set[str]], ...] = (
            (lambda: queue.push({"id": "a"}), pushed),
            (lambda: queue.push({"id": "b"}, delay=600), {"messages delayed", "pushed_total"}),
            (lambda: queue.run_now(ids=["b"]), {"messages ready", "messages delayed", "backlog"}),
            (queue.pop, taken),
            (lambda: queue.ack_id("a", "b"), {"messages in_flight", "backlog", "acked_total"}),
            (queue.pause, {"paused"}),
            (queue.resume, {"paused"}),
            (queue.pop, taken),
            (
                lambda: plain_client.zadd(f"{jobs}BACKUP", {"a": 1, "b": 1}, xx=True),
                {"messages ready", "messages in_flight", "lease_overdue_seconds"},
            ),
            (
                lambda: queue.reject(*queue.pop_many(1)),
                {
                    "messages ready",
                    "messages dead",
                    "backlog",
                    "taken_total",
                    "returned_total",
                    "lease_overdue_seconds",
                    "dead_total",
                },
            ),
            (queue.redrive, {"messages dead", "messages ready", "backlog", "redriven_total"}),
            (
                lambda: queue.nack(*queue.pop_many(1), delay=600),
                {"messages ready", "messages delayed", "backlog", "taken_total", "nacked_total"},
            ),
            (
                lambda: queue.cancel(ids=["a", "b"]),
                {"messages delayed", "messages dead", "dead_total"},
            ),
            (
                lambda: queue.drop_dead_letters(queue.dead_letters(1)[0].entry),
                {"messages dead", "dead_dropped_total"},
            ),
            (lambda: plain_client.zadd(f"{jobs}WORKERS:SEEN", {"w": 8e15}), {"workers"}),
            (lambda: delay.push("a", b"{}"), pushed),
            (delay.take, taken),
            (lambda: topic.publish(b"{}"), {"pushed_total"}),
            (lambda: topic.subscribe("new", 1), {"topic_position", "topic_lag", "backlog"}),
            (lambda: topic.seek("new", "end"), {"topic_position", "topic_lag", "backlog"}),
            (lambda: rsmq.send_message("mails", "x"), pushed),
        )
        before = shown(collector)
        for change, expected in changes:
            change()
            after = shown(collector)
            keys = before.keys() | after.keys()
            assert {key[0] for key in keys if before.get(key) != after.get(key)} == expected
            before = after


def shown(collector: Collector) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return the samples of queues as the exporter writes them, but no ages and troubles.

    The names have the state of messages, and whether a lease is overdue is 0 or 1.
    """
    found = {}
    for (name, labels), number in parsed(collector.families().text(False)).items():
        changing = name.endswith(("oldest_ready_seconds", "lag_seconds", "trouble"))
        if changing or "queue" not in dict(labels):
            continue
        state = dict(labels).get("state", "")
        number = bool(number) if name.endswith("overdue_seconds") else number
        found[f"{name.removeprefix('ackq_')} {state}".rstrip(), labels] = number
    return found


def test_counters_only_grow_even_if_the_queue_is_purged(
    plain_client: redis.Redis, name: str
) -> None:
    with Queue(plain_client, name) as queue, Collector(plain_client, [name]) as collector:
        scrape(collector)
        queue.push_many([{"id": str(number)} for number in range(3)])
        queue.pop_many(2)
        queue.purge(dead=True)
        samples = scrape(collector)
    assert value(samples, "ackq_taken_total", queue=name, kind="list") == 2
    assert value(samples, "ackq_backlog", queue=name, kind="list") == 0


def test_without_totals_nothing_is_changed(plain_client: redis.Redis, name: str) -> None:
    with Collector(plain_client, [name], totals=False) as collector:
        samples = scrape(collector)
    assert not [metric for metric, _ in samples if metric == "ackq_taken_total"]
    assert not plain_client.exists(f"{name}COUNTERS")


def test_an_ended_lease_is_overdue(plain_client: redis.Redis, name: str) -> None:
    with Queue(plain_client, name) as queue, Collector(plain_client, [name]) as collector:
        queue.push({"id": "a"})
        labels = {"queue": name, "kind": "list"}
        assert value(scrape(collector), "ackq_lease_overdue_seconds", **labels) == 0
        (running,) = queue.pop_many(1, visibility_timeout=600)
        assert value(scrape(collector), "ackq_lease_overdue_seconds", **labels) == 0
        queue.release(running)
        queue.pop(visibility_timeout=0.01)
        wait_until(
            lambda: value(scrape(collector), "ackq_lease_overdue_seconds", **labels) > 0,
            "the lease to end",
        )
        assert value(scrape(collector), "ackq_backlog", **labels) == 1


def test_groups_are_counted_without_their_names(plain_client: redis.Redis, name: str) -> None:
    with (
        Queue(plain_client, name, groups=Groups("of", in_flight=1)) as queue,
        Collector(plain_client, [name]) as collector,
    ):
        queue.push_many([{"id": n, "of": of} for n, of in enumerate("aabbc")])
        taken = [queue.pop(), queue.pop(), queue.pop()]
        assert taken[1] is not None
        queue.ack(taken[1])
        samples = scrape(collector)
        labels = {"queue": name, "kind": "list"}
        counts = {
            state: value(samples, "ackq_groups", **labels, state=state)
            for state in ("in_flight", "ready", "limited")
        }
        assert counts == {"in_flight": 2, "ready": 1, "limited": 0}
        assert value(samples, "ackq_moved_aside", **labels) == 2
        assert value(samples, "ackq_messages", **labels, state="ready") == 2
        assert 0 < value(samples, "ackq_group_turn_seconds", **labels) < 60
        assert 0 < value(samples, "ackq_oldest_ready_seconds", **labels) < 60
        queue.purge()


def test_a_pause_is_reported(plain_client: redis.Redis, name: str) -> None:
    with Queue(plain_client, name) as queue, Collector(plain_client, [name]) as collector:
        labels = {"queue": name, "kind": "list"}
        assert value(scrape(collector), "ackq_paused", **labels) == 0
        queue.pause()
        assert value(scrape(collector), "ackq_paused", **labels) == 1
        queue.resume()


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_away_is_down_and_reports_no_queue(free_port: int) -> None:
    with (
        contextlib.closing(redis.Redis(port=free_port)) as client,
        Collector(client) as collector,
    ):
        samples = scrape(collector)
    assert [number for (name, _), number in samples.items() if name == "ackq_up"] == [0]
    assert not [labels for name, labels in samples if name in ("ackq_backlog", "ackq_messages")]


def test_registering_a_collector_asks_nothing(free_port: int) -> None:
    with contextlib.closing(redis.Redis(port=free_port)) as client:
        registry = CollectorRegistry(auto_describe=True)
        collector = Collector(client)
        collector.collect = lambda: pytest.fail("it was asked")  # type: ignore[method-assign]
        registry.register(collector)


def test_failed_scripts_are_counted(plain_client: redis.Redis, name: str) -> None:
    def errors() -> float:
        samples = scrape(collector)
        (count,) = (number for (name, _), number in samples.items() if "script_errors" in name)
        return count

    with Collector(plain_client, [name]) as collector:
        before = errors()
        with pytest.raises(redis.ResponseError):
            plain_client.eval("return redis.error_reply('ACKQ_ARGUMENT x')", 0)
        assert errors() == before + 1


def test_workers_are_counted_while_they_run(plain_client: redis.Redis, name: str) -> None:
    labels = {"queue": name, "kind": "list"}

    def count() -> float:
        return value(scrape(collector), "ackq_workers", **labels)

    with Queue(plain_client, name) as queue, Collector(plain_client) as collector:
        workers = [Worker(queue, print) for _ in range(2)]
        threads = [threading.Thread(target=each.run) for each in workers]
        for thread in threads:
            thread.start()
        try:
            wait_until(
                lambda: ("ackq_workers", frozenset(labels.items())) in scrape(collector), "one"
            )
            wait_until(lambda: count() == 2, "both")
        finally:
            for worker, thread in zip(workers, threads, strict=True):
                worker.stop()
                thread.join(20)
        assert count() == 0
        plain_client.zadd(f"{name}WORKERS:SEEN", {"dead": 1.0})
        assert count() == 0


def test_a_worker_of_several_shards_counts_once(plain_client: redis.Redis, token: str) -> None:
    names = shard_names(token, 2)
    with (
        ShardedQueue(plain_client, token, 2) as sharded,
        Collector(plain_client, [token]) as collector,
    ):
        sharded.join()
        ends = time.time() * 1e6 + 6e7
        plain_client.zadd(f"{names[0]}WORKERS:SEEN", {"both": ends, "first": ends, "dead": 1.0})
        plain_client.zadd(f"{names[1]}WORKERS:SEEN", {"both": ends})
        assert value(scrape(collector), "ackq_workers", queue=token, kind="sharded") == 2


def test_reasons_of_dead_letters_are_bounded() -> None:
    totals = Totals(1.0, {}, {f"reason {number:02}": 1 for number in range(30)})
    *_, family = queue_metrics([Reading("list", "jobs", 0, totals=totals)])
    counts = {
        sample.labels["reason"]: sample.value
        for sample in family.metric().samples
        if sample.name == "ackq_dead_total"
    }
    assert len(counts) == MAX_REASONS + 1
    assert (counts["other"], sum(counts.values())) == (10, 30)
