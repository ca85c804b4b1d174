"""A stocked queue of each kind in turn, and the tools that look at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.cli.conftest import ackq as ackq
from tests.cli.conftest import url as url
from tests.kinds.stock import STOCKS, Stock


@pytest.fixture(params=STOCKS)
def stock(request: pytest.FixtureRequest, plain_client: redis.Redis, name: str) -> Iterator[Stock]:
    """A queue of each kind, with messages in every state and three dead letters."""
    with STOCKS[request.param](plain_client, name) as stock:
        yield stock
