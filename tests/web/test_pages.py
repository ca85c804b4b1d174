"""What the pages show equals what the queues have, without a browser."""

import html
import os
import re
import shlex
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
import redis
from redis.exceptions import NoPermissionError
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from ackq import Groups, Queue
from ackq.errors import ConfigurationError
from ackq.ops import dead_letters, history
from ackq.topic import Topic
from ackq.web import application, queue_details, watcher
from ackq.web.watcher import Watcher
from tests.servers import private_server
from tests.waiting import wait_until
from tests.web.conftest import HOSTILE, Stock


def path_of(page: str, **query: str) -> str:
    return f"/{page}?{urlencode(query)}"


def values_of(http: TestClient, kind: str, name: str) -> dict[str, str]:
    found = http.get(path_of("live", kind=kind, name=name)).json()
    return {key.removeprefix("0."): text for key, text in found["values"].items()}


def links_of(text: str) -> set[str]:
    return {html.unescape(each) for each in re.findall(r'(?:href|src|action)="([^"]*)"', text)}


def walked(http: TestClient, prefix: str, names: Sequence[str] = ("",)) -> set[str]:
    """Follow every link to a static file or a page with one of these names; return the paths."""
    seen, todo = set[str](), {prefix}
    while todo:
        path = todo.pop()
        seen.add(path)
        reply = http.get(path)
        assert reply.status_code == 200, path
        if reply.headers["content-type"].startswith("text/html"):
            found = links_of(reply.text) - {"#main"}
            assert all(each.startswith(prefix) for each in found), found
            todo |= {each for each in found if any(name in each for name in names)} - seen
    return seen


def test_every_link_leads_to_a_page_under_the_prefix(
    plain_client: redis.Redis, stock: Stock
) -> None:
    """The overview links to every queue, and so on: all of it, mounted in another application."""
    outer = Starlette(routes=[Mount("/ops/queues", application(plain_client))])
    client = TestClient(outer, base_url="http://127.0.0.1:9")
    seen = walked(client, "/ops/queues/")
    pages = {path.partition("?")[0].removeprefix("/ops/queues/") for path in seen}
    assert pages >= {
        "",
        "queue",
        "find",
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


def test_groups_are_listed_filtered_and_opened(
    http: TestClient, plain_client: redis.Redis, name: str
) -> None:
    groups = Groups("of", in_flight=1)
    with Queue(plain_client, name, groups=groups) as queue:
        queue.push_many({"id": f"{of[:1]}{n}", "of": of} for n in range(3) for of in ("b", HOSTILE))
        assert [len(queue.pop_many(1)) for _ in range(3)] == [1, 1, 0]
        shown = {"kind": "list", "name": name}
        text = http.get(path_of("queue", **shown)).text
        assert "2 in flight, 0 ready. Consumers have moved 4 ready messages aside" in text
        links = [each for each in links_of(text) if "group=" in each]
        assert len(links) == 2
        for link in links:
            page = html.unescape(http.get(link.partition("#")[0]).text)
            own, other = ("b", "'") if "group=b" in link else ("'", "b")
            assert all(f"<code>{own}{n}</code>" in page for n in (1, 2))
            assert f"<code>{other}1</code>" not in page
        text = http.get(path_of("queue", **shown, groups="onerror", by="oldest")).text
        assert len([each for each in links_of(text) if "group=" in each]) == 1
        text = http.get(path_of("queue", **shown, groups="none")).text
        assert "No group has such a name." in text
        text = html.unescape(http.get(path_of("find", **shown, q="b1")).text)
        assert "moved aside, waits for its group's turn" in text
        assert "ackq cancel" in text
        assert "ackq run-now" not in text
        assert "Run now" not in text
        queue.purge()
    assert "Most waiting" not in http.get(path_of("queue", kind="list", name=f"{name}x")).text


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
        newest_first = queue.dead_letters()[::-1]
    expected = [letter.id for letter in newest_first]
    rare = [letter.id for letter in newest_first if letter.reason == "rare"]

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
    page = dead_letters.page(plain_client, "list", name, None, None)
    assert 5 <= page.causes.read <= 8
    assert page.before == page.letters[-1].entry


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
    plain_client: redis.Redis, name: str, eager: None
) -> None:
    watched = Watcher(plain_client, [name])
    with Queue(plain_client, name) as queue:
        queue.push_many([{"id": f"m-{number}"} for number in range(9)])
        first = watched.sample().row("list", name)
        assert first is not None
        assert set(first.rates.values()) == {None}
        queue.ack(*queue.pop_many(5))
        queue.push({"id": "one more"})
        second = watched.sample().row("list", name)
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
    http: TestClient, plain_client: redis.Redis, name: str, eager: None
) -> None:
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
    counted = ["pushed", "taken", "acked", "nacked", "released", "returned"]
    counted += ["redriven", "dropped", "dead_dropped"]
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
    assert f'<code>schedule</code></td><td class="cause">{name}' in text
    assert "s3cret" not in text
    calls = [
        int(re.findall("<dt>Calls</dt><dd>([0-9,]+)<", each)[0].replace(",", ""))
        for each in (before, text)
    ]
    assert calls[1] > calls[0]
    assert re.search(r"<dt>Mean time</dt><dd>[0-9.]+ (µs|ms)<", text)


def test_all_who_look_share_the_samples(plain_client: redis.Redis, name: str) -> None:
    watched = Watcher(plain_client, [name])
    first = watched.sample()
    assert watched.sample() is first
    watched.close()


def test_an_open_page_is_loaded_again_when_its_queues_change(
    http: TestClient, plain_client: redis.Redis, name: str, eager: None
) -> None:
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
        ("/dead?name=x&before=1", 400, "is not the entry of a dead letter"),
        ("/queue?kind=rsmq&name=rsmq:none", 404, "Queue not found"),
        ("/queue?kind=list&name=x&skip=-1&state=odd", 200, "No such queue is known"),
        (f"/letter?name=x&entry={2**64}-0", 400, "not the entry"),
        (f"/dead?name=x&before={'9' * 5000}-0", 400, "is not the entry of a dead letter"),
    ],
)
def test_impossible_addresses_are_answered_with_a_page(
    http: TestClient, path: str, status: int, text: str
) -> None:
    reply = http.get(path)
    assert reply.status_code == status
    assert text in reply.text
    assert "Redis cannot be read" not in reply.text


def test_a_server_that_is_set_up_wrongly_is_no_mistake_of_the_request(
    http: TestClient, plain_client: redis.Redis, name: str
) -> None:
    plain_client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        replies = [http.get(path_of(page, name=name)) for page in ("dead", "api/v1/dead")]
    finally:
        plain_client.config_set("maxmemory-policy", "noeviction")
    assert [(each.status_code, "allkeys-lru" in each.text) for each in replies] == [(503, True)] * 2


OTHER_PAGES = [
    path_of(page, name="jobs") for page in ("queue", "dead", "letter", "workers", "server")
]


@pytest.mark.usefixtures("impatient")
def test_of_a_server_that_was_never_read_nothing_is_said(plain_client: redis.Redis) -> None:
    address = plain_client.connection_pool.connection_kwargs
    client = redis.Redis(port=address["port"], password="wrong", username="nobody")
    with TestClient(application(client), base_url="http://localhost") as http:
        text = http.get("/").text
        assert "Redis cannot be read. Nothing is known of its queues." in text
        assert "username-password pair" in text
        tiles = dict(re.findall(r'data-value="sum\.(\w+)">([^<]*)<', text))
        assert {tiles[each] for each in ("ready", "in_flight", "dead", "acked")} == {"-"}
        assert "No queue was found" not in text
        for path in OTHER_PAGES:
            reply = http.get(path)
            assert (reply.status_code, "No ackq worker" in reply.text) == (503, False)
            assert "<h1>Redis cannot be read</h1>" in reply.text


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_during_an_outage_the_last_figures_are_shown_with_their_age(
    tmp_path: Path, eager: None, monkeypatch: pytest.MonkeyPatch, how: int
) -> None:
    with (
        private_server(tmp_path) as server,
        redis.Redis.from_url(server.url) as client,
        TestClient(application(client), base_url="http://localhost") as http,
    ):
        with Queue(client, "jobs") as queue:
            queue.push_many([{"id": str(number)} for number in range(7)])
            queue.pop()
        assert http.get("/live").json()["trouble"] is False
        os.kill(server.pid, how)
        monkeypatch.setattr(watcher, "MAX_TIME", 0.1)
        live = http.get("/live").json()
        assert live["trouble"]
        assert (live["values"]["sum.ready"], live["values"]["0.ready"]) == ("6", "6")
        text = http.get("/").text
        assert "Redis cannot be read." in text
        assert re.search(r"The figures are those of [-0-9: ]+ UTC, \d+ s ago", text)
        assert ("no answer within 0.1 s" in text) == (how == signal.SIGSTOP)
        for path in OTHER_PAGES:
            assert http.get(path).status_code == 503
        if how == signal.SIGKILL:
            server.kill()
            server.start()
        os.kill(server.pid, signal.SIGCONT)
        monkeypatch.setattr(watcher, "MAX_TIME", 20.0)
        wait_until(lambda: not http.get("/live").json()["trouble"], "the page to be up to date")


def test_the_connections_of_a_page_that_ends_during_an_outage_are_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "MAX_TIME", 0.1)
    monkeypatch.setattr(watcher, "CLOSING", 0.1)
    with private_server(tmp_path) as server, redis.Redis.from_url(server.url) as client:
        watched = Watcher(client)
        assert not watched.sample().outdated
        os.kill(server.pid, signal.SIGSTOP)
        watched.refresh()
        assert watched.sample().outdated
        watched.close()
        os.kill(server.pid, signal.SIGCONT)


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


def test_the_search_and_the_sums_cover_thousands_of_queues(
    http: TestClient, plain_client: redis.Redis, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine needs more than ten seconds for 5,000 queues.
    monkeypatch.setattr(watcher, "MAX_FIRST", 60.0)
    monkeypatch.setattr(watcher, "MAX_TIME", 60.0)
    pipe = plain_client.pipeline()
    for number in range(5050):
        pipe.zadd(f"{token}-{number:04}BACKUP", {"key": 1e15})
    pipe.execute()
    assert "1 queue</h2>" in http.get(path_of("", q=f"{token}-5049")).text
    values = http.get("/live").json()["values"]
    assert (values["sum.queues"], values["sum.ready"]) == ("5,050", "5,050")


def test_more_queues_have_shorter_curves() -> None:
    lengths = [history.kept_of(queues) for queues in (0, 1, 5000, 10_000, 50_000)]
    assert lengths == [60, 60, 60, 30, 6]


def test_the_queue_with_the_worst_trouble_is_on_top(
    http: TestClient, plain_client: redis.Redis, token: str, eager: None
) -> None:
    with ExitStack() as stack:
        large, old, failing = (
            stack.enter_context(Queue(plain_client, f"{token}-{name}"))
            for name in ("large", "old", "failing")
        )
        for queue in (large, old, failing):
            queue.push_many([{"id": str(number)} for number in range(20)])
        large.push_many([{"id": f"more {number}"} for number in range(100)])
        large.pop()
        old.reject(*old.pop_many(10), reason="long ago")
        failing.pop()

        def shown(sort: str = "") -> list[str]:
            text = http.get(path_of("", sort=sort)).text
            return re.findall(rf">{token}-(\w+)</a>", text)

        assert shown()[0] == "large"  # nothing fails
        for _ in range(2):
            failing.nack(*failing.pop_many(10), delay=0)
        assert shown()[0] == "failing"
        assert shown("backlog")[0] == "large"
        assert shown("dead")[0] == "old"
        values = http.get("/live").json()
        assert values["values"]["sum.peak.dead"] == "10"
        assert values["points"]["sum.dead"]
