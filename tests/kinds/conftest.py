"""A stocked queue of each kind in turn, and the tools that look at it."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.cli.conftest import ackq as ackq
from tests.kinds.stock import STOCKS, Stock, name_of
from tests.servers import Client, Target


@pytest.fixture
def client(target: Target) -> Iterator[Client]:
    """A client of an old Redis, and one of a cluster."""
    with closing(target.make_client()) as made:
        yield made


@pytest.fixture(params=[each for each in STOCKS if each != "topic"])
def stock(request: pytest.FixtureRequest, client: Client, token: str) -> Iterator[Stock]:
    """A queue of each kind that has dead letters, with messages in every state."""
    with STOCKS[request.param](client, name_of(request.param, token)) as stock:
        yield stock
