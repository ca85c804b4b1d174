"""The figures of a queue of every kind: in the live view, on the page, and why messages died."""

import json
import re

import pytest
import redis
from starlette.testclient import TestClient

from ackq.ops.dead_letters import causes_of
from ackq.ops.overview import Overview
from ackq.web import application
from tests.cli.conftest import Run
from tests.kinds.stock import PARTS, STOCKS, Stock, all_stocks
from tests.servers import Client
from tests.web.test_pages import path_of, values_of


def test_top_shows_them(ackq: Run, plain_client: redis.Redis, token: str) -> None:
    with all_stocks(plain_client, token) as stocks:
        rows = [json.loads(line) for line in ackq("top", "--json").output.splitlines()]
        lines = [line.split("\t") for line in ackq("top", "--sort", "backlog").output.splitlines()]
    found = {(row["kind"], row["queue"]): row for row in rows}
    assert found.keys() == {(stock.kind, stock.name) for stock in stocks.values()}
    for stock in stocks.values():
        row = found[stock.kind, stock.name]
        assert (row["backlog"], row["lags"]) == (stock.backlog, stock.lags)
        assert {state: row[state] for state in stock.states} == stock.states
        assert len(row["parts"]) == len(stock.parts)
        for state, count in stock.states.items() if stock.parts else ():
            assert sum(part[state] for part in row["parts"]) == count
    assert lines[0][11] == "rsmq"  # the largest: RSMQ does not tell delayed messages
    assert {line[11] for line in lines} == {stock.kind for stock in stocks.values()}


@pytest.mark.parametrize("stock", STOCKS, indirect=True)
def test_the_page_shows_them(client: Client, stock: Stock) -> None:
    with TestClient(application(client), base_url="http://localhost") as http:
        shown = values_of(http, stock.kind, stock.name)
        text = http.get(path_of("queue", kind=stock.kind, name=stock.name)).text
    if stock.kind == "topic":
        assert shown["ready"] == str(stock.backlog)
        assert re.findall(r'data-label="Lag">(\d+)<', text) == ["2", "3"]
        assert re.findall(r'data-label="Position">(\d+)<', text) == ["1", "0"]
        return
    states = {**stock.states, "in_flight": stock.states.get("in_flight", 2)}
    for state in ("ready", "in_flight", "delayed", "dead"):
        assert shown[state] == str(states.get(state, "-")), state
    if stock.parts:
        assert all(f">{part}<" in text for part in stock.parts)
        assert len(re.findall(r"queue\?kind=[^\"]*\">[^<]*</a></td>", text)) == PARTS
    else:
        assert "3 dead letters" in text


def test_the_causes_of_the_dead_are_counted(client: Client, stock: Stock) -> None:
    with Overview(client, [stock.name]) as overview:
        (reading,) = (queue for queue in overview.read().queues if queue.kind == stock.kind)
        found = causes_of(client, reading)
    assert (found.counts, found.read) == ((("KeyError", 2), ("ValueError", 1)), 3)
