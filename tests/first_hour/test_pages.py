"""The examples of each page, pasted by a new user.

The other tests of pages run in the environment of a contributor, which has every extra.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.first_hour.environment import ROOT, Environments, run, user

SPARK = ("spark,embedded", "vega_datasets")


@dataclass(frozen=True, slots=True)
class Page:
    """What a reader has installed and written before pasting the examples."""

    #: The extras of ackq, then other packages.
    packages: tuple[str, ...] = ("embedded",)
    before: str = ""
    #: Checks to run after the examples.
    after: str = ""
    #: How many of the first examples are left out: parts of a program, whose rest a test of the
    #: product has.
    parts: int = 0


#: Pages whose examples need nothing else.
PLAIN = (
    *("docs/queue.md", "docs/tutorial.md", "docs/retries.md", "docs/find.md"),
    *("docs/idempotence.md", "docs/delay.md", "docs/topic.md", "docs/rsmq.md", "docs/sharded.md"),
    *("docs/worker.md", "docs/moving-from.md", "docs/cancel.md", "docs/unique.md"),
    *("docs/order.md", "docs/fairness.md", "docs/limits.md"),
)
PAGES = {
    **dict.fromkeys(PLAIN, Page()),
    **dict.fromkeys(("README.md", "docs/index.md"), Page(("tasks,embedded",))),
    "docs/recipes.md": Page(("embedded", "fastapi")),
    "docs/metrics.md": Page(("embedded,metrics",)),
    "docs/tracing.md": Page(("embedded,otel", "opentelemetry-sdk")),
    "docs/tasks.md": Page(("tasks,embedded", "pydantic", "sentry-sdk", "structlog")),
    "docs/testing.md": Page(
        ("tasks,embedded", "pytest"),
        after="import pytest; assert pytest.main(['-q', __file__, '-p', 'no:cacheprovider']) == 0",
    ),
    "docs/dropin.md": Page(("embedded", "fakeredis[lua]"), parts=3),
    "docs/moving-over.md": Page(
        before="""
import redis
import ackq
from ackq.embedded import shared_url

class Here(redis.Redis):
    def __init__(self, **settings):
        super().__init__(**{"unix_socket_path": PATH} | settings)

PATH = redis.Redis.from_url(shared_url()).get_connection_kwargs()["path"]
redis.Redis = Here
""",
    ),
    "docs/web.md": Page(
        ("web,embedded", "fastapi", "itsdangerous", "django"),
        before="""
import os
from django.conf import settings
os.environ["SECRET_KEY"] = "a secret of this test"
settings.configure(
    SECRET_KEY="another one",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes",
                    "django.contrib.sessions"],
)
""",
    ),
    "docs/spark.md": Page(
        SPARK,
        before="""
from ackq import Queue
from ackq.delay import PartitionedDelayQueue
from ackq.topic import Topic
with Queue.from_url(None, "jobs") as jobs, Topic.from_url(None, "prices") as topic:
    jobs.push({"id": "z"})
    jobs.reject(jobs.pop(), reason="no good")
    topic.publish({"item": "tea"})
with PartitionedDelayQueue.from_url(None, "invoices", 16) as queue:
    queue.push("invoice-4", b"x", delay=3600, partition=3)
""",
        after="""
written = spark.read.parquet("jobs.parquet")
assert [row.id for row in written.orderBy("position").collect()] == ["a", "b"]
assert progress.rows == 2
assert [(row.reason, row["count"]) for row in dead.groupBy("reason").count().collect()] == [
    ("no good", 1)
]
assert invoices.columns == ["id", "value", "queue", "batch", "position", "ready_time"]
assert prices.columns == ["id", "value", "topic", "offset"]
assert [(row.queue, row["count"]) for row in later.groupBy("queue").count().collect()] == [
    ("invoices:3", 1)
]
""",
    ),
    "docs/spark-sink.md": Page(
        SPARK,
        before="""
import redis
from ackq import Queue
from ackq.embedded import shared_url
from ackq.spark import session
client = redis.Redis.from_url(shared_url())
jobs = Queue(client, "jobs")
spark = session(url=shared_url())
df = spark.createDataFrame([("a",)], "id string")
df.write.parquet("more")
stream, path = spark.readStream.schema("id string").parquet("more"), "checkpoint"
bodies = [b"x", b"y"]
""",
        after="""
write(df, 3)
write(df, 3)
for query in spark.streams.active:
    query.processAllAvailable()
    query.stop()
assert sorted(each.body for each in jobs.peek()) == [b"x", b"y", *[b'{"id":"a"}'] * 3]
""",
    ),
    "docs/pipeline.md": Page(
        SPARK,
        before="""
import os, pyarrow, pyarrow.parquet
from ackq import Queue
from ackq.embedded import shared_url
os.environ["ACKQ_REDIS_URL"] = shared_url()
os.mkdir("cars")
pyarrow.parquet.write_table(
    pyarrow.table({"origin": ["USA"], "year": [1970], "cars": [3]}), "cars/part.parquet")
Queue.from_url(None, "jobs").push_many(
    [{"id": "a", "seconds": 61}, {"id": "b", "seconds": 60}, {"id": "c"}])
""",
        after="""
assert (progress.rows, progress.rejected) == (3, 1)
(long,) = Queue.from_url(None, "long").peek()
assert long.id == "a"
""",
    ),
}
#: Pages whose examples need other machines: a server of Spark Connect.
ELSEWHERE = ("docs/pipeline-deploy.md",)
nightly = (
    pytest.mark.campaign,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("packaging"),
)


def test_every_page_with_examples_is_pasted_nightly() -> None:
    pages = {"README.md", *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))}
    shown = {page for page in pages if re.search("^```python$", (ROOT / page).read_text(), re.M)}
    assert shown == PAGES.keys() | set(ELSEWHERE)


@pytest.mark.parametrize("page", [pytest.param(page, marks=nightly) for page in PAGES])
def test_the_examples_of_a_page_run_as_pasted(
    page: str, environments: Environments, tmp_path: Path
) -> None:
    reader = PAGES[page]
    text = (ROOT / page).read_text()
    shown = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)[reader.parts :]
    assert shown
    script = tmp_path / "example.py"
    script.write_text("\n".join([reader.before, *shown, reader.after]))
    commands = environments(*reader.packages)
    with user(commands, tmp_path) as variables:
        run(commands / "python", script, cwd=tmp_path, env=variables)
