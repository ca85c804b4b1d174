"""What docs/rsmq.md shows, works."""

import pytest
import redis

from tests.examples import RunExamples


@pytest.mark.parametrize(("number", "queue", "count"), [(0, "mail", b"1"), (1, "orders", b"100")])
def test_an_example_runs(
    run_examples: RunExamples, plain_client: redis.Redis, number: int, queue: str, count: bytes
) -> None:
    run_examples("docs/rsmq.md", only=number)
    assert plain_client.hget(f"rsmq:{queue}:Q", "totalrecv") == count
    assert plain_client.zcard(f"rsmq:{queue}") == 0
