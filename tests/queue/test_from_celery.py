"""The handler of docs/moving-from.md does the tasks of messages that Celery 5.7.0 wrote."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from ackq import Queue
from ackq.worker import Worker

PAGE = (Path(__file__).parents[2] / "docs" / "moving-from.md").read_text()
#: A task for now, one for the year 2100, one that expired and the first of a chain.
WRITTEN_BY_CELERY = (Path(__file__).parent / "celery.jsonl").read_text()


def test_the_tasks_of_a_celery_list_are_done(
    plain_client: redis.Redis, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    tasks: dict[str, Any] = {}
    exec(compile(example, "docs/moving-from.md", "exec"), tasks)
    in_two_days = (datetime.now(UTC) + timedelta(days=2)).date().isoformat()
    messages = WRITTEN_BY_CELERY.replace("2100-01-01", in_two_days).splitlines()
    with Queue(plain_client, name) as queue:
        plain_client.lpush(name, *messages)
        Worker(queue, tasks["handle"]).run(drain=True)
        assert capsys.readouterr().out == "now.png 64\n"
        assert sorted(letter.reason for letter in queue.dead_letters()) == [
            "belongs to a chain, a chord or a callback",
            "expired",
        ]
        assert queue.stats().delayed == 1
        assert queue.drain() == 1
        assert plain_client.lrange(name, 0, -1) == [messages[1].encode()]
