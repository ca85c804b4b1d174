"""Messages are found by id and by field, and the search shows its progress; buttons act on them."""

import html
import re
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import redis
from starlette.testclient import TestClient

from ackq import Queue
from ackq.delay import DelayQueue
from ackq.errors import LeaseLost
from ackq.web import search
from ackq.web.requests import Ask
from ackq.web.search import Searches, Wanted
from tests.queue.scripts.space import listed_field
from tests.servers import Target
from tests.waiting import wait_until
from tests.web.conftest import HOSTILE
from tests.web.test_operating import Operator
from tests.web.test_operating import operator as operator
from tests.web.test_operating import page as page
from tests.web.test_operating import queue as queue
from tests.web.test_pages import path_of


def texts_of(reply: str) -> str:
    """Return what a page shows, as one line."""
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", reply.split("<main")[1])).split())


def test_a_message_is_found_by_its_id_wherever_it_is(
    http: TestClient, plain_client: redis.Redis, name: str
) -> None:
    with Queue(plain_client, name) as queue:
        queue.push_many([{"id": f"{HOSTILE}{n}", "customer": n % 2} for n in range(6)])
        queue.reject(*queue.pop_many(1), reason="no good")
        queue.nack(*queue.pop_many(1), delay=600, error=KeyError("why"))
        queue.pop_many(1, visibility_timeout=600)

    def find(text: str, **query: str) -> str:
        return texts_of(http.get(path_of("find", name=name, q=text, **query)).text)

    assert "dead Open the dead letter Reason no good" in find(f"{HOSTILE}0")
    delayed = find(f"{HOSTILE}1")
    assert re.search("delayed Where due in (599|600) s Deliveries 1", delayed)
    assert "KeyError" in delayed
    assert re.search("in flight Where lease ends in (599|600) s", find(f"{HOSTILE}2"))
    assert "ready Where 1 before it Deliveries 0" in find(f"{HOSTILE}4")
    assert "There is no such message. One that was acked is gone." in find("none")
    # A page that only reads shows commands instead of buttons.
    for number, command in ((1, "cancel"), (2, "cancel"), (2, "--running"), (4, "run-now")):
        assert command in find(f"{HOSTILE}{number}").partition("Cancel it: ")[2]
    with DelayQueue(plain_client, name) as delay:
        delay.push("later", b"", delay=600)
        assert f"ackq delay reschedule {name} later --delay 0" in find("later", kind="delay")
    assert '"customer":1' not in find(f"{HOSTILE}3")
    assert '"customer":1' in find(f"{HOSTILE}3", bodies="1")
    # By a field: a table that leads to the messages.
    assert find("customer=1").count(HOSTILE) == 3
    assert "There is no such message" in find("customer=1", by="id")
    assert "There is no such message" in find("customer=1 & id=none")
    assert "is not the id of a message" in find("x" * 600)
    for wrong in ("a=1 & b", "a=1 & a=2"):
        assert http.get(path_of("find", name=name, q=wrong)).status_code == 400
    assert http.get(path_of("find", kind="topic", name=name, q="a")).status_code == 400


def test_a_search_shows_its_progress_and_has_its_limits(
    http: TestClient, plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "INTERVAL", 0.0005)
    with Queue(plain_client, name) as queue:
        queue.push_many([{"id": f"a-{n}", "kind": "x"} for n in range(21_000)])
    text = http.get(path_of("find", name=name, q="a-20500")).text
    assert "The next 20,000 of each state were searched" in texts_of(text)
    assert "There is no such message, or it is further from delivery" in texts_of(text)
    assert "<progress" in text
    text = http.get(path_of("find", name=name, q="a-20500", within="all")).text
    assert "20,500 before it" in texts_of(text)
    steps = [int(each) for each in re.findall(r'max="21000" value="(\d+)"', text)]
    assert sorted(set(steps))[0] < 20_000
    assert steps == sorted(steps)
    assert http.get(path_of("api/v1/find", name=name, id="none")).json()["looked"] == 20_000
    table = http.get(path_of("find", name=name, q="kind=x")).text
    assert "Only the first 100 are shown." in texts_of(table)
    assert table.count("<tr>") == 101
    # Nobody waits for it any more, or it takes too long.
    searches = Searches(plain_client)
    waited_for = searches.search(Wanted("list", name, "none", within=None))
    shown: Iterator[int] = waited_for.steps()
    next(shown)
    shown.close()  # type: ignore[attr-defined]
    wait_until(
        lambda: not any(each.name == "ackq-web-search" for each in threading.enumerate()),
        "the search to end",
    )
    assert waited_for.looked < 21_000
    monkeypatch.setattr(search, "MAX_TIME", 0)
    assert "the search was given up" in http.get(path_of("find", name=name, q="none")).text
    monkeypatch.setattr(search, "MAX_RUNNING", 0)
    late = Searches(plain_client).search(Wanted("list", name, "none"))
    assert list(late.steps()) == []
    assert "0 searches are running" in late.problem


def test_a_search_ends_if_the_browser_leaves(
    site: str, plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    note, gone = search.Search._note, threading.Event()

    def held(running: search.Search, count: int) -> None:
        wait_until(lambda: running._left, "the page to notice")
        gone.set()
        note(running, count)

    monkeypatch.setattr(search.Search, "_note", held)
    with Queue(plain_client, name) as queue:
        queue.push({"id": "a"})
    address = urlsplit(site)
    with socket.create_connection((address.hostname or "", address.port or 0)) as browser:
        request = f"GET {path_of('find', name=name, q='none')} HTTP/1.1\r\nHost: {address.netloc}"
        browser.sendall(f"{request}\r\n\r\n".encode())
        received = b""
        while b"<progress" not in received:
            received += browser.recv(65_536)
    assert gone.wait(30)


def test_ready_and_running_messages_are_canceled_and_run_next(
    operator: Operator, page: TestClient, queue: Queue, name: str
) -> None:
    queue.push_many([{"id": each} for each in ("held", "a", HOSTILE, "twin", "twin")])
    held = queue.pop(visibility_timeout=60)
    text = page.get(path_of("queue", name=name)).text
    whats = list(map(html.unescape, re.findall('what=([^"]*)"', text)))
    run = Ask("run_now", name=name, id=HOSTILE)
    assert html.escape(run.query()) in text
    assert any("cancel" in each for each in whats)
    assert operator.do(run) == f"Make message {HOSTILE} ready now: 1 message ready now"
    assert [each.id for each in queue.peek()] == [HOSTILE, "a", "twin", "twin"]
    reply = operator.post(run)
    assert "&by=id" in reply.headers["location"]
    assert reply.headers["location"].startswith(f"/{path_of('find', kind='list', name=name)}"[1:])
    cancel = Ask("cancel", name=name, id="twin")
    assert "Found now: 2 ready." in operator.preview(cancel)
    assert operator.do(cancel) == "Cancel message twin: 2 messages canceled"
    assert operator.do(cancel).startswith("Cancel message twin: nothing")
    assert operator.do(Ask("cancel", name=name, id="held")).endswith("ready or delayed")
    running = Ask("cancel_running", name=name, id="held")
    assert "Found now: 1 in flight. Its worker notices" in operator.preview(running)
    assert operator.do(running) == "Cancel running message held: 1 message canceled"
    assert held is not None
    with pytest.raises(LeaseLost):
        queue.extend(held)
    assert held.canceled
    assert operator.do(running).endswith("ready, delayed or in flight")
    assert operator.do(Ask("run_now", name=name, id="none")).endswith("far from both ends")
    for wrong in (
        Ask("cancel", name=name),
        Ask("cancel", name=name, id="a", key="1-a"),
        Ask("run_now", "delay", name, id="a"),
        Ask("cancel_running", "delay", name, id="a"),
        Ask("cancel_running", "topic", name, id="a"),
    ):
        assert operator.post(wrong).status_code == 400, wrong


def test_a_ready_message_that_is_canceled_is_marked_and_cannot_be_chosen(
    page: TestClient, target: Target, queue: Queue, name: str
) -> None:
    queue.push_many([{"id": "a"}, {"id": "b"}])
    now = int(target.control.time()[0]) * 1_000_000
    note = f"{now - 604_000_000_000} 0 1"
    target.control.hset(f"{name}NOTES", listed_field("a", b'{"id":"a"}'), note)
    shown = page.get(path_of("queue", name=name)).text
    assert re.search("a canceled 10 B 0 b 10 B 0 Run now Cancel", texts_of(shown)), texts_of(shown)


def test_schedules_are_shown_paused_and_removed(
    operator: Operator, page: TestClient, queue: Queue, name: str
) -> None:
    queue.schedules.put(HOSTILE, {"task": "report"}, cron="0 9 * * 1", zone="Europe/Berlin")
    queue.schedules.put("hourly", {"task": "tidy"}, every=3600, unique="done")
    shown = texts_of(page.get(path_of("queue", name=name)).text)
    assert re.search(r"20\d\d-\d\d-\d\d 0[78]:00:00 UTC .* 0 9 \* \* 1 Europe/Berlin", shown)
    assert "hourly unique 20" in shown
    assert operator.do(Ask("pause_schedule", name=name, schedule=HOSTILE)).endswith(": paused")
    assert [each.paused for each in queue.schedules.list()] == [True, False]
    assert "Paused" in texts_of(page.get(path_of("queue", name=name)).text)
    assert operator.do(Ask("resume_schedule", name=name, schedule=HOSTILE)).endswith(": resumed")
    remove = Ask("remove_schedule", name=name, schedule="hourly")
    assert "push nothing more" in operator.preview(remove)
    assert operator.do(remove) == "Remove schedule hourly: removed"
    assert operator.do(remove).endswith("no longer exists")
    assert [each.name for each in queue.schedules.list()] == [HOSTILE]
    assert operator.post(Ask("remove_schedule", name=name)).status_code == 400
    assert operator.post(Ask("pause_schedule", "delay", name, schedule="a")).status_code == 400
    assert operator.do(Ask("remove_schedule", name=name, schedule=HOSTILE)).endswith("removed")
