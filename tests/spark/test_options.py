"""Options: refused by name, and never a secret among them."""

from pathlib import Path
from typing import Any

import pytest

from ackq.errors import ConfigurationError, QueueNameError
from ackq.spark.connection import Connection
from ackq.spark.options import Reading
from ackq.spark.source import AckqDataSource

CANARY = "canary-9d1c"


def reading(**options: Any) -> Reading:
    # As Spark hands them over: in lower case, and as text.
    return Reading.of({name.lower(): str(value) for name, value in options.items()})


def test_missing_options_have_defaults() -> None:
    found = reading(path="jobs")
    assert (found.target.kind, found.target.lists) == ("queue", ("jobs",))
    assert (found.group, found.ack_mode, found.fail_on_data_loss) == ("spark", "eager", True)
    assert (found.max_messages, found.max_bytes, found.claim_timeout) == (100_000, None, 604_800)
    assert (found.poll_interval, found.fetch_size, found.min_partitions) == (0.1, None, None)
    assert found.parsing.mode == "PERMISSIVE"


def test_the_end_that_is_popped_is_an_option_of_queues() -> None:
    assert reading(queue="jobs").target.pop_from == "right"
    found = reading(queue="jobs", popFrom="left", shards=2)
    assert found.target.pop_from == "left"
    assert found in {found}  # executors cache clients by it
    with pytest.raises(ConfigurationError, match="'popFrom' is for a queue, not for 'topic'"):
        reading(topic="news", popFrom="left")
    with pytest.raises(ConfigurationError, match="'right' or 'left', not 'top'"):
        reading(queue="jobs", popFrom="top")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"maxMesagesPerTrigger": 5}, "'maxmesagespertrigger'.*mean 'maxMessagesPerTrigger'"),
        ({"groupid": "a b"}, "group 'a b'"),
        ({"maxMessagesPerTrigger": 0}, "'maxMessagesPerTrigger' must be an integer from 1"),
        ({"maxMessagesPerTrigger": "1e3"}, "'maxMessagesPerTrigger' must be an integer"),
        ({"maxMessagesPerTrigger": 5, "maxOffsetsPerTrigger": 5}, "mean the same"),
        ({"maxBytesPerTrigger": -1}, "maxBytesPerTrigger"),
        ({"minMessagesPerTrigger": 5, "minOffsetsPerTrigger": 5}, "mean the same"),
        ({"minMessagesPerTrigger": 5, "maxTriggerDelay": "5 min"}, "'maxTriggerDelay' must be"),
        ({"maxTriggerDelay": "5m"}, "'maxTriggerDelay' needs 'minMessagesPerTrigger'"),
        ({"queues": "a,b"}, "not 'queue' and 'queues'"),
        ({"minPartitions": 0}, "minPartitions"),
        ({"maxRecordsPerPartition": "x"}, "maxRecordsPerPartition"),
        ({"failOnDataLoss": "yes"}, "'failOnDataLoss' must be 'true' or 'false', not 'yes'"),
        ({"claimTimeoutMs": 10}, "'claimTimeoutMs' must be an integer from 1000"),
        ({"ackMode": "late"}, "'eager' or 'commit', not 'late'"),
        ({"pollIntervalMs": 0}, "pollIntervalMs"),
        ({"fetchSize": 0}, "fetchSize"),
        ({"retryTimeoutMs": -1}, "retryTimeoutMs"),
        ({"includeMetadata": "1"}, "includeMetadata"),
        ({"mode": "STRICT"}, "'PERMISSIVE' or 'FAILFAST', not 'STRICT'"),
        ({"mode": "DROPMALFORMED"}, "'PERMISSIVE' or 'FAILFAST', not 'DROPMALFORMED'"),
        ({"columnNameOfCorruptRecord": ""}, "columnNameOfCorruptRecord"),
        ({"timeZone": "Berlin"}, "timeZone"),
        ({"state": "acked"}, "'ready' or 'in_flight' or 'delayed' or 'dead'"),
        ({"startingOffsets": "earliest"}, "does not apply to a queue"),
        ({"endingOffsets": "latest"}, "does not apply to a queue"),
        ({"shards": 0}, "shards"),
        ({"topic": "prices"}, "not 'queue' and 'topic'"),
        ({"cluster": "maybe"}, "cluster"),
    ],
)
def test_a_bad_option_is_refused_by_name(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        reading(queue="jobs", **options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"groupId": "g"}, "groupId.*is for a queue"),
        ({"ackMode": "eager"}, "ackMode.*is for a queue"),
        ({"state": "dead"}, "state.*is for a queue or a delayQueue"),
        ({"partitions": 2}, "partitions.*is for a delayQueue"),
        ({"shards": 2}, "'shards' is for a queue, not for 'topic'"),
        ({"startingOffsets": 0}, "startingOffsets"),
        ({"startingOffsets": "newest"}, "startingOffsets"),
        ({"endingOffsets": "earliest"}, "endingOffsets"),
    ],
)
def test_a_topic_has_options_of_its_own(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        reading(topic="prices", **options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"queues": "a, b,a"}, "'queues' must be 1 to 1024 different names"),
        ({"queues": "a,"}, "name"),
        ({"queues": "a-*", "shards": 2}, "'a-\\*' is a pattern, but the lists of sharded queues"),
        ({"queues": "a*DEAD"}, "name"),
        ({"queues": "a-[xy]"}, "name"),
    ],
)
def test_several_queues_are_named_once_each(options: dict[str, Any], complaint: str) -> None:
    assert reading(queues="a, b").target.lists == ("a", "b")
    with pytest.raises(ConfigurationError, match=complaint):
        reading(**options)


def test_a_trigger_delay_has_a_unit() -> None:
    delays = {"500ms": 0.5, "2s": 2, "15m": 900, "1h": 3600, "1d": 86400}
    for text, seconds in delays.items():
        found = reading(queue="jobs", minOffsetsPerTrigger=5, maxTriggerDelay=text)
        assert (found.min_messages, found.max_delay) == (5, seconds)
    assert reading(queue="jobs", minMessagesPerTrigger=5).max_delay == 15 * 60


def test_one_target_must_be_named() -> None:
    with pytest.raises(ConfigurationError, match=r"set one of the options 'queue'.*not none"):
        reading()
    with pytest.raises(QueueNameError):
        reading(queue="jobsBACKUP")


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{CANARY}@localhost",
        f"rediss://user:{CANARY}@localhost:1/0",
        f"unix:///tmp/x.sock?password={CANARY}",
        f"redis://[{CANARY}@localhost",
    ],
)
def test_a_password_in_the_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError, match="ACKQ_REDIS_URL") as raised:
        reading(queue="jobs", url=url)
    assert CANARY not in str(raised.value)


def test_the_password_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{CANARY}@:/é\n")
    found = Connection("rediss://me@host:7/2?x=1", str(file))
    assert found.address() == f"rediss://me:{CANARY}%40%3A%2F%C3%A9@host:7/2?x=1"
    assert CANARY not in repr(found)
    with pytest.raises(ConfigurationError, match=r"passwordFile.*nowhere"):
        Connection("redis://host", str(tmp_path / "nowhere")).address()


def test_the_url_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKQ_REDIS_URL", "redis://:pw@host:7/0")
    assert Connection(None).address() == "redis://:pw@host:7/0"
    assert Connection("redis://other").address() == "redis://other"
    monkeypatch.delenv("ACKQ_REDIS_URL")
    with pytest.raises(ConfigurationError, match="no URL of Redis"):
        Connection(None).address()


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets", "shards", "popFrom"])
def test_a_delay_queue_has_options_of_its_own(option: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{option}.*for"):
        reading(delayQueue="later", **{option: "1000"})


def test_the_partitions_of_a_delay_queue_are_claimed_like_queues() -> None:
    found = reading(delayQueue="later", partitions="3", groupId="g")
    assert found.target.lists == ("later:0", "later:1", "later:2")
    assert found.source == "delayQueue 'later', group 'g'"


@pytest.mark.parametrize(("place", "option"), [("queue", "state"), ("topic", "endingOffsets")])
def test_options_of_spark_read_are_refused_in_a_stream(place: str, option: str) -> None:
    source = AckqDataSource({place: "jobs", option.lower(): "dead" if option == "state" else "5"})
    with pytest.raises(ConfigurationError, match=rf"'{option}' is for spark\.read$"):
        source.streamReader(source.schema())


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("groupId", "g"),
        ("maxMessagesPerTrigger", "5"),
        ("maxOffsetsPerTrigger", "5"),
        ("maxBytesPerTrigger", "5"),
        ("claimTimeoutMs", "5000"),
        ("ackMode", "commit"),
        ("pollIntervalMs", "5"),
    ],
)
def test_options_of_streams_are_refused_by_spark_read(option: str, value: str) -> None:
    source = AckqDataSource({"queue": "jobs", option.lower(): value})
    with pytest.raises(ConfigurationError, match=rf"'{option}' is for spark\.readStream"):
        source.reader(source.schema())


def test_a_topic_is_read_from_an_index_to_an_index() -> None:
    found = reading(topic="news")
    assert (found.starting, found.ending) == ("earliest", "latest")
    found = reading(topic="news", startingOffsets=" 1 ", endingOffsets="0")
    assert (found.starting, found.ending) == (1, 0)
    assert reading(topic="news", startingOffsets="LATEST").starting == "latest"
    for name, wrong in (
        ("startingOffsets", "0"),
        ("startingOffsets", "-1"),
        ("startingOffsets", "first"),
        ("endingOffsets", "earliest"),
        ("endingOffsets", "1.5"),
    ):
        with pytest.raises(ConfigurationError, match=name):
            reading(topic="news", **{name: wrong})
