"""What the pages show equals what the queues have, without a browser."""

from __future__ import annotations

import html
import re
import shlex
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
import redis
from redis.exceptions import NoPermissionError
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from ackq import Queue
from ackq.errors import ConfigurationError
from ackq.ops import dead_letters, samples
from ackq.ops.kinds import only_part, opened
from ackq.topic import Topic
from ackq.web import application, queue_details, watcher
from ackq.web.watcher import Watcher
from tests.web.conftest import HOSTILE, Stock


def path_of(page: str, **query: str) -> str:
    return f"/{page}?{urlencode(query)}"


def values_of(http: TestClient, kind: str, name: str) -> dict[str, str]:
    found = http.get(path_of("live", kind=kind, name=name)).json()
    return {key.removeprefix("0."): text for key, text in found["values"].items()}


def links_of(text: str) -> set[str]:
    return {html.unescape(each) for each in re.findall(r'(?:href|src|action)="([^"]*)"', text)}


def test_every_link_leads_to_a_page_under_the_prefix(
    plain_client: redis.Redis, stock: Stock
) -> None:
    """The overview links to every queue, and so on: all of it, mounted in another application."""
    outer = Starlette(routes=[Mount("/ops/queues", application(plain_client))])
    client = TestClient(outer, base_url="http://127.0.0.1:9")
    seen: set[str] = set()
    todo = {"/ops/queues/"}
    while todo:
        path = todo.pop()
        seen.add(path)
        reply = client.get(path)
        assert reply.status_code == 200, path
        if reply.headers["content-type"].startswith("text/html"):
            found = links_of(reply.text) - {"#main"}
            assert all(each.startswith("/ops/queues/") for each in found), found
            todo |= found - seen
    pages = {path.partition("?")[0].removeprefix("/ops/queues/") for path in seen}
    assert pages >= {
        "",
        "queue",
        "dead",
        "letter",
        "body",
        "workers",
        "operations",
        "server",
        "static/ackq.js",
    }
    for name in (stock.jobs, stock.reminders, stock.prices, stock.legacy):
        assert any(urlencode({"name": name}) in path for path in seen)


def test_bodies_are_hidden_until_they_are_asked_for(
    http: TestClient, plain_client: redis.Redis, stock: Stock
) -> None:
    with Queue(plain_client, stock.jobs) as queue:
        letter = queue.dead_letters()[0]
    where = {"name": stock.jobs, "entry": letter.entry}
    hidden = html.escape('"secret":')
    for page, query in (("queue", {"kind": "list", "name": stock.jobs}), ("letter", where)):
        asked = {"bodies": "1", "body": "1"}
        plain = http.get(path_of(page, **query)).text
        assert hidden.replace("&quot;", "&#34;") not in plain
        assert hidden.replace("&quot;", "&#34;") in http.get(path_of(page, **query, **asked)).text
    # A command to copy: a hostile name must be one word of the shell.
    command = html.escape(f"ackq dead drop {shlex.quote(stock.jobs)} {letter.entry}")
    assert command.replace("&quot;", "&#34;").replace("&#x27;", "&#39;") in plain
    reply = http.get(path_of("body", **where))
    assert reply.content == letter.body
    assert reply.headers["content-disposition"].startswith("attachment; filename=")
    assert reply.headers["content-type"] == "application/octet-stream"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert HOSTILE not in reply.headers["content-disposition"]


def test_invisible_characters_are_shown_as_escapes(
    http: TestClient, plain_client: redis.Redis, name: str
) -> None:
    with Queue(plain_client, name) as queue:
        queue.push({"id": "a\u202eb", "text": "\u2066x\x1b"})
    text = http.get(path_of("queue", kind="list", name=name, bodies="1")).text
    assert "a\\u202eb" in text
    assert not set("\u202e\u2066\x1b") & set(text)


def test_pages_of_dead_letters_have_each_one_once(
    http: TestClient, plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "MAX_READ", 20)
    monkeypatch.setattr(dead_letters, "PAGE", 7)
    with Queue(plain_client, name) as queue:
        queue.push_many([{"id": f"m-{number}"} for number in range(60)])
        for number, message in enumerate(queue.pop_many(60)):
            queue.reject(message, reason="rare" if number % 25 == 24 else f"usual {number % 2}")
        expected = [letter.id for letter in queue.dead_letters()]
        rare = [letter.id for letter in queue.dead_letters() if letter.reason == "rare"]

    def walk(path: str) -> list[str]:
        ids = []
        while True:
            text = http.get(path).text
            ids += re.findall(r"<code>(m-\d+)</code>", text)
            following = re.search(r'<a href="([^"]*)">Next', text)
            if following is None:
                return ids
            path = html.unescape(following[1])

    assert walk(path_of("dead", name=name)) == expected
    assert walk(path_of("dead", name=name, cause="rare")) == rare
    assert len(rare) == 2
    assert "<b>10</b> usual 0" in http.get(path_of("dead", name=name)).text


def test_a_page_of_dead_letters_reads_a_bounded_number_of_bytes(
    plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "MAX_BYTES", 2 * 1024 * 1024)
    with Queue(plain_client, name) as queue:
        for _ in range(12):
            queue.push(b'{"a":"' + b"x" * 400_000 + b'"}')
            queue.reject(*queue.pop_many(1), reason="large")
    with opened(plain_client, "list", name) as queue:
        page = dead_letters.page(only_part(queue), None, None)
        assert 5 <= page.causes.read <= 8
        assert page.after == page.letters[-1].entry


def test_ages_are_shown_if_messages_have_times(plain_client: redis.Redis, name: str) -> None:
    made = 1_780_000_000
    plain_client.lpush(name, b'{"id":"a","made":%d}' % made, b'{"id":"b"}')
    for field, oldest, created in ((None, "-", False), ("made", " d", True)):
        with TestClient(
            application(plain_client, [name], time_field=field), base_url="http://localhost"
        ) as http:
            assert values_of(http, "list", name)["oldest"].endswith(oldest)
            text = http.get(path_of("queue", kind="list", name=name)).text
            assert ("<th>Created</th>" in text) == created
            assert ("2026-05-28 20:26:40 UTC" in text) == created
    with pytest.raises(ConfigurationError, match="time_field"):
        application(plain_client, time_field="a b")


def test_rates_come_with_the_second_sample(
    plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "MIN_INTERVAL", 0)
    monkeypatch.setattr(samples, "PER_QUEUE", 0)
    watched = Watcher(plain_client, [name])
    with Queue(plain_client, name) as queue:
        queue.push_many([{"id": f"m-{number}"} for number in range(9)])
        first = watched.look().row("list", name)
        assert first is not None
        assert set(first.rates.values()) == {None}
        queue.ack(*queue.pop_many(5))
        queue.push({"id": "one more"})
        second = watched.look().row("list", name)
    watched.close()
    assert second is not None
    pushed, taken, acked = (second.rates[each] for each in ("pushed", "taken", "acked"))
    assert taken == acked
    assert taken
    assert pushed == pytest.approx(taken / 5)
    assert list(second.curves.backlogs) == [9, 5]
    curves = second.curves.rates()
    assert {name: series[0] for name, series in curves.items()} == dict.fromkeys(curves)
    assert (curves["pushed"][1], curves["acked"][1], curves["nacked"][1]) == (pushed, acked, 0)


def test_totals_are_those_of_the_counters(
    http: TestClient, plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "MIN_INTERVAL", 0)
    monkeypatch.setattr(samples, "PER_QUEUE", 0)
    with Queue(plain_client, name) as queue:
        queue.push({"id": "later"}, delay=3600)
        assert "Totals" in http.get(path_of("queue", kind="list", name=name)).text
        queue.push_many([{"id": f"m-{number}"} for number in range(9)])
        queue.ack(*queue.pop_many(4))
        queue.reject(*queue.pop_many(2), reason=HOSTILE)
        queue.nack(*queue.pop_many(1))
        shown = values_of(http, "list", name)
        found = queue.counters()
        text = http.get(path_of("queue", kind="list", name=name)).text
    totals = {key.removeprefix("total."): value for key, value in shown.items() if "total" in key}
    counted = (
        "pushed",
        "taken",
        "acked",
        "nacked",
        "released",
        "returned",
        "redriven",
        "dropped",
        "dead_dropped",
    )
    assert totals == {
        **{each: str(getattr(found, each)) for each in counted},
        **{f"dead: {reason}": str(count) for reason, count in found.dead.items()},
    }
    assert (found.acked, found.nacked, sum(found.dead.values())) == (4, 1, 2)
    assert f'data-value="0.total.taken">{found.taken}<' in text


def test_slow_scripts_are_named_without_their_arguments(
    http: TestClient, plain_client: redis.Redis, name: str
) -> None:
    def served() -> str:
        return html.unescape(http.get("/server").text)

    usual = plain_client.config_get("slowlog-log-slower-than")["slowlog-log-slower-than"]
    with Queue(plain_client, name) as queue:
        queue.push({"id": "a", "secret": "s3cret"})
        before = served()
        plain_client.config_set("slowlog-log-slower-than", 0)
        queue.push({"id": "b", "secret": "s3cret"}, delay=60)
        text = served()
        plain_client.config_set("slowlog-log-slower-than", str(usual))
        plain_client.slowlog_reset()
    assert f"<code>schedule</code></td><td>{name}" in text
    assert "s3cret" not in text
    calls = [
        int(re.findall("<dt>Calls</dt><dd>([0-9,]+)<", each)[0].replace(",", ""))
        for each in (before, text)
    ]
    assert calls[1] > calls[0]
    assert re.search(r"<dt>Mean time</dt><dd>[0-9.]+ (µs|ms)<", text)


def test_all_who_look_share_the_samples(plain_client: redis.Redis, name: str) -> None:
    watched = Watcher(plain_client, [name])
    first = watched.look()
    assert watched.look() is first
    watched.close()


def test_an_open_page_is_loaded_again_when_its_queues_change(
    http: TestClient, plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "MIN_INTERVAL", 0)
    monkeypatch.setattr(samples, "PER_QUEUE", 0)
    before = http.get("/live").json()["signature"]
    with Topic(plain_client, name) as topic:
        topic.publish(b"{}")
    assert http.get("/live").json()["signature"] != before
    assert f'data-signature="{before}"' not in http.get("/").text


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/nothing", 404, "no such page"),
        ("/queue?kind=list&name=x*", 400, "Redis patterns"),
        ("/queue?kind=odd&name=x", 400, "not a kind of queue"),
        ("/letter?name=x&entry=%2B", 400, "not the entry"),
        ("/letter?name=x&entry=17-0", 404, "no such page"),
        ("/dead?name=x&after=1", 400, "after is an entry"),
        ("/queue?kind=rsmq&name=rsmq:none", 404, "Queue not found"),
        ("/queue?kind=list&name=x&skip=-1&state=odd", 200, "No message"),
    ],
)
def test_impossible_addresses_are_answered_with_a_page(
    http: TestClient, path: str, status: int, text: str
) -> None:
    reply = http.get(path)
    assert reply.status_code == status
    assert text in reply.text


def test_a_server_that_cannot_be_reached_is_shown(free_port: int) -> None:
    client = redis.Redis(port=free_port)
    with TestClient(application(client), base_url="http://localhost") as http:
        assert "Cannot be reached" in http.get("/").text
        reply = http.get("/queue?kind=list&name=jobs")
        assert reply.status_code == 503
        assert "refused" in reply.text


def test_workers_that_this_user_may_not_list_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise error

    monkeypatch.setattr(queue_details, "workers", refuse)
    row: Any = SimpleNamespace(reading=SimpleNamespace(kind="list", name="jobs", workers=1))
    error: Exception = NoPermissionError("no")
    assert queue_details.all_workers(redis.Redis(), [row]) is None
    error = redis.ConnectionError("away")
    with pytest.raises(redis.ConnectionError):
        queue_details.all_workers(redis.Redis(), [row])
