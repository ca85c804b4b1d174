"""Times and limits that a page or a docstring names are those of the code."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("constant", "value", "page", "words"),
    [
        ("cli.attention.WINDOW", 15 * 60, "docs/cli.md", "consumers count for 15 more minutes"),
        ("core.backoff.MAX_BACKOFF", 300, "docs/retries.md", "at most 300 seconds"),
        ("core.io.settings.CONNECT_TIMEOUT", 5, "ackq/queue/client.py", "allows 5 seconds to"),
        ("core.io.settings.READ_TIMEOUT", 5, "ackq/queue/client.py", "and 5 for each reply"),
        ("core.limits.MAX_DEDUP_WINDOW", 315_360_000, "ackq/topic/spec.py", "to ten years"),
        ("core.waits.PAUSED_POLL", 0.5, "docs/cli.md", "Consumers notice within half a second"),
        ("dropin.client_async.SEVERAL_KEYS_WAIT", 0.1, "docs/moving-over.md", "every 0.1 seconds"),
        ("metrics.collector.WINDOW", 15 * 60, "docs/metrics.md", "counting going for 15 minutes"),
        ("metrics.exporter.MAX_TIME", 2, "docs/metrics.md", "`/v1/queues/NAME` at most 2"),
        ("ops.attention.marks.FAILED_WITHIN", 15 * 60, "docs/web.md", "over after 15 minutes"),
        ("ops.operation_log.FIRST_DUE", 15, "docs/web.md", "record for 15 seconds was"),
        ("ops.overview.FORGET_AFTER", 3600, "docs/metrics.md", "are empty for an hour are forgot"),
        ("process.plan.PATIENCE", 5, "docs/retries.md", "ends five seconds after the last of them"),
        ("process.spares.KEPT", 30, "docs/retries.md", "wait for 30 seconds, in case"),
        ("queue.record.RECHECK", 10, "docs/guarantees.md", "afterwards within ten seconds"),
        ("queue.take.MAX_WAIT", 10 * 60, "docs/guarantees.md", "never more than 15 minutes"),
        ("rsmq.operations.MAX_WAIT", 0.9, "docs/rsmq.md", "clients are found within a second"),
        ("spark.options.CLAIM_TIMEOUT_MS", 604_800_000, "docs/spark.md", "(a week by default)"),
        ("spark.options.RETRY_TIMEOUT_MS", 300_000, "docs/formats.md", "(5 minutes by default)"),
        ("spark.pipeline.spark_settings.PATIENCE", 10, "docs/pipeline.md", "within 10 seconds"),
        ("spark.stream.MAX_INTERVAL", 60, "ackq/spark/stream.py", "least one a minute"),
        ("spark.stream.KEEP", 600, "docs/spark.md", "stay readable for ten minutes"),
        ("staging.operations.LIFETIME_MS", 86_400_000, "docs/spark-sink.md", "expire after a day"),
        ("web.application.IDLE", 300, "ackq/web/application.py", "after five minutes without"),
        ("web.forms.MAX_TIME", 10, "docs/web.md", "must arrive within 10 seconds"),
        ("web.guard.REFUSAL_DELAY", 0.5, "docs/security.md", "is refused after half a second"),
        ("web.search.MAX_RUNNING", 4, "docs/web.md", "Up to 4 searches run at a time"),
        ("web.search.MAX_TIME", 60, "docs/web.md", "ends after 60 seconds at the latest"),
        ("web.watcher.MIN_INTERVAL", 2, "docs/web.md", "number of queues: 2 seconds, or"),
        ("worker.base.SHUTDOWN_TIMEOUT", 5, "docs/worker.md", "`ackq work` ends within ten"),
        ("worker.feed.BUFFERED_SECONDS", 0.1, "docs/worker.md", "most a tenth of a second"),
        ("worker.feeder.TAKE_TIMEOUT", 0.5, "docs/worker.md", "found within half a second"),
        ("worker.minutes.STOPPED", 10, "docs/web.md", "10 seconds after it has acked its"),
        ("worker.minutes.EXACT", 100, "docs/web.md", "more than 100 messages in a"),
        ("worker.presence.INTERVAL", 5, "docs/worker.md", "within 5 seconds (`--heartbeat`"),
        ("worker.presence.LIFETIME", 6, "ackq/worker/base.py", "listed for 6 intervals more"),
        ("worker.presence.LEAVE_TIMEOUT", 1, "docs/worker.md", "spends at most a second on that"),
        ("worker.state.STILL_RUNNING_PAUSE", 1, "docs/worker.md", "the message for a second"),
        ("worker.upkeep.STALE", 1.1, "docs/worker.md", "waited in the worker for a second"),
    ],
)
def test_a_time_is_the_documented_one(constant: str, value: float, page: str, words: str) -> None:
    module, _, name = constant.rpartition(".")
    assert getattr(importlib.import_module(f"ackq.{module}"), name) == value
    assert words in " ".join((ROOT / page).read_text().split())
