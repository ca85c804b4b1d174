"""What the page does with a queue of every kind."""

import html
import re
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest
from starlette.testclient import TestClient

from ackq.delay import DelayQueue
from ackq.ops import dead_letters
from ackq.ops.kinds import KINDS, opened
from ackq.web import requests
from ackq.web.requests import Ask
from ackq.web.search import Searches, Wanted
from tests.kinds.stock import Stock, each_that_can
from tests.servers import Client
from tests.web.conftest import eager as eager
from tests.web.test_operating import Operator
from tests.web.test_operating import operator as operator
from tests.web.test_operating import page as page
from tests.web.test_pages import path_of


def with_letters(stock: Stock, client: Client) -> list[str]:
    """Return the queue, or the parts of it that have dead letters."""
    return [
        part
        for part in stock.parts or (stock.name,)
        if dead_letters.newest(client, part_kind(stock), part)[0]
    ]


def part_kind(stock: Stock) -> str:
    return "list" if stock.kind == "sharded" else stock.kind


def counted(client: Client, stock: Stock) -> dict[str, Any]:
    with opened(client, stock.kind, stock.name) as queue:
        return queue.kind.stats(queue.client)


def test_dead_letters_are_shown_and_counted_by_cause(
    page: TestClient, client: Client, stock: Stock
) -> None:
    found: dict[str, str] = {}
    for each in with_letters(stock, client):
        kind = part_kind(stock)
        text = page.get(path_of("dead", kind=kind, name=each)).text
        entries = re.findall(r'name="entry" value="([^"]*)"', text)
        assert f"<h1>{len(entries)} dead letter" in text
        for entry in entries:
            letter = page.get(path_of("letter", kind=kind, name=each, entry=entry)).text
            (id,) = re.findall("<h1><code>(.*?)</code></h1>", letter)
            (cause,) = re.findall("<dt>Cause</dt><dd>(.*?)</dd>", letter)
            assert f"<dt>Reason</dt><dd>{stock.reason}</dd>" in letter
            assert f"</b> {cause}</a>" in text
            found[id] = cause
            body = page.get(path_of("body", kind=kind, name=each, entry=entry))
            assert body.headers["content-disposition"].endswith(f'-{entry}.bin"')
    assert found == stock.dead


def test_dead_letters_are_paged(
    page: TestClient, client: Client, stock: Stock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "PAGE", 1)
    entries = []
    for letter in with_letters(stock, client):
        path = path_of("dead", kind=part_kind(stock), name=letter)
        while path:
            text = page.get(path).text
            entries += re.findall(r'name="entry" value="([^"]*)"', text)
            path = "".join(map(html.unescape, re.findall(r'<a href="([^"]*)">Next', text)))
    assert len(entries) == len(stock.dead)


def test_dead_letters_are_redriven_and_dropped(
    operator: Operator, client: Client, stock: Stock
) -> None:
    kind, redriven, dropped = part_kind(stock), 0, 0
    for letter in with_letters(stock, client):
        by_cause = Ask("redrive", kind, letter, cause="ValueError")
        assert "with the cause “ValueError”" in operator.preview(by_cause)
        assert operator.do(Ask("redrive", kind, letter, cause="none")).endswith(" 0 redriven")
        redriven += int(operator.do(by_cause).split()[-2])
        left, newest = dead_letters.newest(client, kind, letter)
        if left:
            one = Ask("drop", kind, letter, entries=(newest,))
            assert operator.do(one) == "Drop 1 dead letter: 1 dropped"
            assert operator.do(one) == "Drop 1 dead letter: 0 dropped"
            done = operator.do(Ask("drop", kind, letter))
            assert done == f"Drop all dead letters: {left - 1} dropped"
        dropped += left
    assert (redriven, dropped) == (1, 2)
    assert with_letters(stock, client) == []


@each_that_can("pause")
def test_a_queue_is_paused_and_resumed(
    operator: Operator, page: TestClient, client: Client, stock: Stock
) -> None:
    path = path_of("queue", kind=stock.kind, name=stock.name)
    assert operator.do(Ask("pause", stock.kind, stock.name)) == "Pause the queue: paused"
    assert counted(client, stock)["paused"]
    assert ">Resume<" in page.get(path).text
    assert operator.do(Ask("resume", stock.kind, stock.name)) == "Resume the queue: resumed"
    assert not counted(client, stock)["paused"]
    assert ">Pause<" in page.get(path).text


def test_a_kind_that_cannot_be_paused_has_no_button(page: TestClient, stock: Stock) -> None:
    text = page.get(path_of("queue", kind=stock.kind, name=stock.name)).text
    assert (">Pause<" in text) == ("pause" in KINDS[stock.kind].does)


@each_that_can("run_now")
def test_delayed_messages_are_run_now(
    operator: Operator, page: TestClient, client: Client, stock: Stock
) -> None:
    for part in stock.parts or (stock.name,):
        text = page.get(path_of("queue", kind=stock.kind, name=part, state="delayed")).text
        whats = [*map(html.unescape, re.findall('name="what" value="([^"]*)"', text))]
        keys = [re.findall("[?&]key=([^&]*)", f"?{what}")[0] for what in whats if "run_now" in what]
        for key in keys:
            run = Ask("run_now", stock.kind, part, key=key)
            assert operator.do(run) == "Make message later ready now: ready"
    assert (counted(client, stock)["ready"], counted(client, stock)["delayed"]) == (3, 0)


@each_that_can("find")
def test_messages_are_found_and_can_be_canceled(
    operator: Operator, page: TestClient, client: Client, stock: Stock
) -> None:
    search = Searches(client).search(Wanted(stock.kind, stock.name, min(stock.dead), "id"))
    search.run()
    assert 1 <= search.looked <= search.total
    if stock.kind in ("delay", "rsmq"):  # others are looked up
        assert search.total == len(stock.dead)
    for id, state in {**stock.found, **dict.fromkeys(stock.dead, "dead")}.items():
        path = path_of("find", kind=stock.kind, name=stock.name, q=id)
        text = page.get(path).text
        assert f">{state.replace('_', ' ')}</span>" in text
        if state == "dead":
            (letter,) = re.findall(r'href="([^"]*/letter[^"]*)"', text)
            assert page.get(html.unescape(letter)).status_code == 200
        whats = [*map(html.unescape, re.findall('what=([^"]*)"', text))]
        can_cancel = state != "dead" and stock.kind != "rsmq"
        if stock.kind == "delay" and state == "in_flight":
            can_cancel = False
        assert any("cancel" in what for what in whats) == can_cancel
        if can_cancel:
            (what,) = (unquote(what) for what in whats if "cancel" in what)
            asked = parse_qs(what)
            assert "canceled" in operator.do(requests.read(asked))
            assert f">{state.replace('_', ' ')}</span>" not in page.get(path).text
    if "search" not in KINDS[stock.kind].does:
        assert "field=value" not in page.get(path_of("find", kind=stock.kind, name="x:y")).text


def test_pages_of_a_whole_queue_name_its_parts(client: Client, page: TestClient, name: str) -> None:
    with DelayQueue(client, name) as queue:
        queue.push("a", b"")
    assert page.get(path_of("dead", kind="sharded", name="none")).status_code == 400
    assert page.get(path_of("dead", kind="topic", name=name)).status_code == 400
    assert page.get(path_of("queue", kind="odd", name=name)).status_code == 400
