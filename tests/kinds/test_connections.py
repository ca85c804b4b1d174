"""A command, and a view of the page, needs one connection to Redis."""

import pytest
import redis
from starlette.testclient import TestClient

from ackq.web import application
from tests.cli.conftest import Run
from tests.kinds.stock import Stock
from tests.web.test_pages import path_of


@pytest.fixture
def client(plain_client: redis.Redis) -> redis.Redis:
    """A client of the server that the commands use."""
    return plain_client


def received(client: redis.Redis) -> int:
    """Return how many connections the server has accepted."""
    number: int = client.info("stats")["total_connections_received"]
    return number


def test_a_command_opens_one(ackq: Run, plain_client: redis.Redis, stock: Stock) -> None:
    commands = [["stats", stock.name], ["dead", "list", stock.name]]
    commands += [["dead", "list", stock.name, "--causes"], ["dead", "redrive", stock.name, "--all"]]
    if stock.kind != "rsmq":
        commands += [["peek", stock.name], ["purge", stock.name, "--yes"]]
    if stock.kind == "list":
        commands += [["push", stock.name, "{}"], ["pop", stock.name, "--ack"]]
        commands += [["claims", "list", stock.name], ["drain", stock.name, "--yes"]]
    if stock.kind == "sharded":
        commands += [["push", stock.name, "{}"], ["sharded", "pop", stock.name]]
    for command in commands:
        before = received(plain_client)
        ackq(*command)
        assert received(plain_client) - before == 1, command


def test_a_view_of_the_page_opens_none_after_the_first(
    plain_client: redis.Redis, stock: Stock
) -> None:
    with TestClient(application(plain_client), base_url="http://localhost") as http:
        before = received(plain_client)
        paths = ["/", path_of("queue", kind=stock.kind, name=stock.name), "/workers"]
        if not stock.parts:
            paths.append(path_of("dead", kind=stock.kind, name=stock.name))
        for path in paths:
            assert http.get(path).status_code == 200
        # One asks for the nodes, one reads all figures, and one does everything else.
        assert received(plain_client) - before <= 3
        before = received(plain_client)
        for path in paths:
            assert http.get(path).status_code == 200
        assert received(plain_client) == before
