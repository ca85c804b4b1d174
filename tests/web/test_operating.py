"""What people do through the page happens, and is recorded; nobody else can do it."""

import html
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
import redis
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from ackq import Groups, Queue
from ackq.core.effects import Operation
from ackq.delay import DelayQueue
from ackq.errors import LeaseLost
from ackq.ops import dead_letters, operation_log
from ackq.queue.registry import entries
from ackq.topic import Topic
from ackq.web import application, jobs
from ackq.web.forms import COOKIE
from ackq.web.requests import Ask
from tests.listed import list_worker
from tests.servers import Fleet, Survey, Target, private_server
from tests.waiting import wait_until
from tests.web.conftest import HOSTILE, served
from tests.web.test_pages import path_of

ORIGIN = "http://localhost"
#: A key of a delay queue that is not UTF-8, and whose characters are invisible.
ODD_KEY = b"k\xff\xe2\x80\xae&=+ \"'<".decode(errors="surrogateescape")


class Operator:
    """A browser's forms, without a browser."""

    def __init__(self, http: TestClient, name: str = "{x}") -> None:
        self.http = http
        drop = Ask("drop", name=name).query()
        text = http.get(path_of("preview", what=drop)).text
        self.token = re.findall(r'name="token" value="(\w+)"', text)[0]

    def post(self, ask: Ask, *, headers: dict[str, str] | None = None, **fields: str) -> Any:
        fields = {"token": self.token, "what": ask.query(), **fields}
        headers = {"origin": ORIGIN} if headers is None else headers
        return self.http.post("/operate", data=fields, headers=headers, follow_redirects=False)

    def do(self, ask: Ask, **fields: str) -> str:
        """Do it; return the notice on the page that follows."""
        reply = self.post(ask, headers=None, **fields)
        assert reply.status_code == 303, reply.text
        page = self.http.get(reply.headers["location"])
        assert page.status_code == 200
        (notice,) = re.findall(r'<p class="notice[^>]*>(.*?)</p>', page.text)
        return html.unescape(re.sub("<[^>]*>", "", notice))

    def preview(self, ask: Ask, **fields: str) -> str:
        """Return what the preview says."""
        text = self.http.get(path_of("preview", what=ask.query(), **fields)).text
        return html.unescape(" ".join(re.findall("<p[^>]*>([^<]*)</p>", text)))


@pytest.fixture
def page(target: Target, eager: None) -> Iterator[TestClient]:
    """A page that may operate, on an old server and on a cluster."""
    client = target.make_client()
    with TestClient(application(client, operate=True), base_url=ORIGIN) as http:
        yield http
    target.control.delete(operation_log.KEY.decode())
    client.close()


@pytest.fixture
def operator(page: TestClient) -> Operator:
    return Operator(page)


@pytest.fixture
def queue(target: Target, name: str) -> Iterator[Queue]:
    client = target.make_client()
    with Queue(client, name) as queue:
        yield queue
    client.close()


def kill(queue: Queue, **reasons: int) -> None:
    """Make dead letters, the given number for each reason."""
    for reason, count in reasons.items():
        queue.push_many([{"id": f"{reason}-{number}"} for number in range(count)])
        while messages := queue.pop_many(100):
            queue.reject(*messages, reason=reason)


def logged(page: TestClient) -> list[tuple[str, ...]]:
    """Return who, what and the result of the operations on the page, the newest first."""
    rows = re.findall("<tr>(.*?)</tr>", page.get("/operations").text, re.DOTALL)[1:]
    cells = [re.findall("<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in rows]
    texts = [[html.unescape(re.sub("<[^>]*>", "", each)).strip() for each in row] for row in cells]
    return [(row[1], row[2], row[4]) for row in texts]


def test_dead_letters_are_redriven_and_dropped_by_choice_cause_or_all(
    operator: Operator, page: TestClient, queue: Queue, name: str
) -> None:
    kill(queue, bad=7, late=60)
    chosen = tuple(letter.entry for letter in queue.dead_letters(3))
    one = Ask("redrive", name=name, entries=chosen[:1])
    assert "7 dead letters of" in operator.preview(Ask("redrive", name=name, cause="bad"))
    assert operator.do(one) == "Redrive 1 dead letter: 1 redriven"
    assert operator.do(one) == "Redrive 1 dead letter: 0 redriven"
    assert operator.do(Ask("drop", name=name, entries=chosen)) == "Drop 3 dead letters: 2 dropped"
    assert queue.stats().ready == 1
    assert operator.do(Ask("redrive", name=name, cause="bad"), pace="1000").endswith("4 redriven")
    assert {letter.reason for letter in queue.dead_letters()} == {"late"}
    # What died after the preview was not seen by anyone, so it stays.
    until = queue.dead_letters(10)[-1].entry
    assert "All 60 dead letters of" in operator.preview(Ask("drop", name=name))
    assert operator.do(Ask("drop", name=name, until=until), pace="10000").endswith("10 dropped")
    assert operator.do(Ask("redrive", name=name), pace="10000").endswith("50 redriven")
    assert (queue.stats().ready, queue.stats().dead) == (55, 0)
    who, what, result = logged(page)[0]
    assert (who, what, result) == (
        "anonymous at testclient",
        "Redrive all dead letters",
        "50 redriven",
    )


def test_an_incident_is_seen_and_counted_beside_more_old_dead_letters_than_are_read(
    operator: Operator, page: TestClient, queue: Queue, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "MAX_READ", 20)
    monkeypatch.setattr(dead_letters, "MAX_COUNTED", 20)
    kill(queue, present=5, old=60)
    kill(queue, present=3)
    assert "<b>3</b> present" in page.get(path_of("dead", name=name)).text
    redrive = Ask("redrive", name=name, cause="present")
    assert operator.preview(redrive).startswith("At least 3 dead letters of")
    text = page.get(path_of("preview", what=redrive.query())).text
    assert "Redrive dead letters (at least 3)</button>" in text
    assert operator.do(redrive, pace="10000").endswith(" 8 redriven")


def test_a_long_operation_keeps_its_pace_shows_its_progress_and_can_be_stopped(
    operator: Operator, page: TestClient, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "WAIT", 0.3)
    kill(queue, bad=100)
    began = time.monotonic()
    assert operator.do(Ask("drop", name=queue.name), pace="10").endswith("begun")
    dropped = 100 - queue.stats().dead
    assert 2 <= dropped <= 1 + 10 * (time.monotonic() - began)
    live = page.get("/progress").json()
    ((number, text),) = [(key, value) for key, value in live["values"].items() if "text" in key]
    assert re.fullmatch(r"\d+ of 100 looked at, \d+ dropped", text)
    assert logged(page)[0][2] == "running"
    stop = Ask("stop_job", name=queue.name, job=number.partition(".")[0])
    assert re.search(r"\d dropped, then stopped by anonymous", operator.do(stop))
    left = queue.stats().dead
    assert left > 20
    assert logged(page)[0][2] == f"{100 - left} dropped, then stopped by anonymous at testclient"
    assert page.get("/progress").json()["values"] == {}


def test_a_page_that_ends_stops_what_runs_and_says_so(
    target: Target, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "WAIT", 0)
    kill(queue, bad=40)
    client = target.make_client()
    with TestClient(application(client, operate=True), base_url=ORIGIN) as http:
        Operator(http).post(Ask("redrive", name=queue.name), pace="10")
    with TestClient(application(client), base_url=ORIGIN) as http:
        assert "redriven, then stopped by the end of the page" in logged(http)[0][2]
    assert queue.stats().dead > 20
    target.control.delete(operation_log.KEY.decode())
    client.close()


#: A process whose page is not told of its end, as if it was mounted in another application.
ENDING = """
import sys, redis
from ackq.web import jobs
from ackq.ops.operation_log import OperationLog
jobs.WAIT = 0
log = OperationLog(redis.Redis.from_url(sys.argv[1]))
steps = lambda most: (jobs.Step(1, 1) for _ in range(100))
start = jobs.Jobs(log).start
start("ada", "Drop all", "dropped", "list", "jobs", 100, 1, steps, chosen=False)
"""


@pytest.fixture
def two_pages(
    plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Operator, Operator]]:
    """Two pages of one server, as two processes have them; the first one has begun to drop."""
    monkeypatch.setattr(jobs, "WAIT", 0)
    monkeypatch.setattr(jobs, "NOTES", 0)
    with Queue(plain_client, name) as queue, ExitStack() as stack:
        kill(queue, bad=300)
        pages = [
            Operator(
                stack.enter_context(
                    TestClient(application(plain_client, operate=True), base_url=ORIGIN)
                )
            )
            for _ in range(2)
        ]
        assert pages[0].do(Ask("drop", name=name), pace="10").endswith("begun")
        yield pages[0], pages[1]
    plain_client.delete(operation_log.KEY)


def stop_of(page: Operator) -> Ask:
    """Return what the button of the only operation that runs asks for."""
    text = page.http.get("/operations").text
    (begun,) = re.findall(r'data-progress="([0-9-]+)\.looked"', text)
    return Ask("stop_job", job=begun)


def test_an_operation_is_watched_and_stopped_on_another_page(
    two_pages: tuple[Operator, Operator], plain_client: redis.Redis, name: str
) -> None:
    _, second = two_pages

    def looked() -> int:
        values = second.http.get("/progress").json()["values"]
        return next(int(text) for key, text in values.items() if key.endswith(".looked"))

    begin = looked()
    wait_until(lambda: looked() > begin, "the progress to be seen")
    refused = second.post(Ask("redrive", name=name), pace="10")
    assert refused.status_code == 400
    assert "another operation runs on this queue: Drop all dead letters" in refused.text
    assert second.post(stop_of(second)).status_code == 303
    wait_until(lambda: "data-progress" not in second.http.get("/operations").text, "its end")
    result = logged(second.http)[0][2]
    assert result.endswith("dropped, then stopped by anonymous at testclient")
    with Queue(plain_client, name) as queue:
        assert queue.stats().dead == 300 - int(result.split()[0])


def test_what_a_page_that_died_had_done_is_known(
    two_pages: tuple[Operator, Operator], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _, second = two_pages
    wait_until(lambda: " dropped" in second.http.get("/operations").text, "some progress")
    # The first page no longer writes: as if it were dead.
    monkeypatch.setattr(operation_log.OperationLog, "_add", lambda *_: "0-0")
    monkeypatch.setattr("ackq.ops.asking.now", later)
    row = next(row for row in logged(second.http) if row[1] == "Drop all dead letters")
    assert re.fullmatch(r"interrupted after at least \d+ of 300 looked at, \d+ dropped", row[2])
    assert second.post(Ask("stop_job", job="1-1")).status_code == 400


def later() -> Operation[float]:
    yield from ()
    return time.time() + 3600


def test_the_result_is_recorded_once_redis_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "END_PAUSE", 0.01)
    monkeypatch.setattr(jobs, "WAIT", 0)
    with private_server(tmp_path) as server, redis.Redis.from_url(server.url) as client:

        def steps(most: int) -> Iterator[jobs.Step]:
            yield jobs.Step(1, 1)
            server.kill()

        with operation_log.OperationLog(client) as records:
            running = jobs.Jobs(records)
            job = running.start("a", "Drop", "dropped", "list", "x", 1, 1000, steps, chosen=True)
            wait_until(lambda: job.state == "done", "the work to be done")
            server.start()
            job.over.wait(30)
            assert [entry.result for entry in records.newest(9) or ()] == ["1 dropped"]
            running.close()


def test_a_process_that_ends_stops_what_runs_and_says_so(
    plain_client: redis.Redis, url: str
) -> None:
    words = [sys.executable, "-c", ENDING, url]
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with operation_log.OperationLog(plain_client) as record:
        found = record.newest(1)
    assert found
    assert "dropped, then stopped by the end of the page" in str(found[0].result)
    plain_client.delete(operation_log.KEY)


def test_only_some_operations_run_at_a_time(
    plain_page: TestClient, plain_client: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "WAIT", 0)
    monkeypatch.setattr(jobs, "MAX_RUNNING", 2)
    with Queue(plain_client, name) as queue:
        kill(queue, bad=10)
        chosen = tuple(letter.entry for letter in queue.dead_letters())
    operator = Operator(plain_page)
    drop = Ask("drop", name=name, entries=chosen)
    codes = [operator.post(drop, pace="1").status_code for _ in range(3)]
    assert codes == [303, 303, 400]
    for each in list(plain_page.get("/progress").json()["values"]):
        number = each.partition(".")[0]
        operator.post(Ask("stop_job", name=name, job=number))
    assert operator.post(drop, pace="1").status_code == 303


def test_an_operation_that_fails_is_recorded_with_its_error(
    operator: Operator, page: TestClient, target: Target, name: str
) -> None:
    target.control.set(f"{name}DEAD", "text")
    reply = operator.post(Ask("redrive", name=name, entries=("1-1",)))
    assert reply.status_code in (303, 409)
    with Topic(target.make_client(), name) as topic:
        topic.publish(b"{}")
        assert operator.post(Ask("seek", "topic", name, consumer="none", to="1")).status_code == 404
    assert "failed" in logged(page)[0][2]
    target.control.delete(f"{name}DEAD")


def test_delayed_messages_run_now_or_are_canceled(
    operator: Operator, page: TestClient, target: Target, name: str
) -> None:
    with DelayQueue(target.make_client(), name) as delay:
        for key in (ODD_KEY, "a", "b"):
            delay.push(key, b"x", delay=3600)
        assert operator.do(Ask("run_now", "delay", name, key=ODD_KEY)).endswith(": ready")
        assert [each.id for each in delay.peek()] == [ODD_KEY]
        assert "will not be delivered" in operator.preview(Ask("cancel", "delay", name, key="a"))
        assert operator.do(Ask("cancel", "delay", name, key="a")) == "Cancel message a: canceled"
        assert "nothing" in operator.do(Ask("cancel", "delay", name, key="a"))
        assert [each.id for each in delay.peek(10, "delayed")] == ["b"]
        # The form of the page names the key unchanged, though it shows escapes.
        text = page.get(path_of("queue", kind="delay", name=name, state="delayed")).text
        whats = map(html.unescape, re.findall('name="what" value="([^"]*)"', text))
        assert Ask("run_now", "delay", name, key="b").query() in whats


def test_delayed_messages_of_a_list_run_now_or_become_dead_letters(
    operator: Operator, page: TestClient, queue: Queue, name: str
) -> None:
    for each in (HOSTILE, "b", "c"):
        queue.push({"id": each}, delay=3600)
    text = page.get(path_of("queue", kind="list", name=name, state="delayed")).text
    whats = list(map(html.unescape, re.findall('name="what" value="([^"]*)"', text)))
    hostile, b, c = (each.entry for each in queue.peek(3, "delayed"))
    assert Ask("run_now", name=name, key=hostile).query() in whats
    done = operator.do(Ask("run_now", name=name, key=hostile))
    assert done == f"Make message {HOSTILE} ready now: ready"
    assert [each.id for each in queue.peek()] == [HOSTILE]
    cancel = Ask("cancel", name=name, key=b)
    asked = operator.preview(cancel)
    assert "The message b of" in asked
    assert "unless you redrive it" in asked
    assert operator.do(cancel) == "Cancel message b: canceled, now a dead letter"
    assert "nothing" in operator.do(cancel)
    assert [each.cause for each in queue.dead_letters()] == ["canceled"]
    queue.nack(*queue.pop_many(1), delay=3600)
    assert "nothing" in operator.do(Ask("cancel", name=name, key=hostile))  # delayed again
    assert operator.do(Ask("redrive", name=name, cause="canceled")).endswith("1 redriven")
    assert logged(page)[0][1] == "Redrive dead letters with the cause “canceled”"
    assert (queue.stats().ready, queue.stats().delayed) == (1, 2)
    assert operator.post(Ask("cancel", name=name, key="c")).status_code == 400
    assert [each.entry for each in queue.peek(2, "delayed")][:1] == [c]


def test_a_group_that_a_dead_letter_stops_is_resumed(
    operator: Operator, page: TestClient, target: Target, name: str
) -> None:
    client = target.make_client()
    with Queue(client, name, groups=Groups("of", on_dead="stop")) as queue:
        queue.push_many({"id": f"{n}", "of": HOSTILE} for n in range(2))
        queue.reject(*queue.pop_many(1))
        assert queue.pop() is None
        text = page.get(path_of("queue", kind="list", name=name)).text
        assert "1 stopped by dead letters" in text
        (link,) = re.findall(r'href="([^"]*)"><span class="badge problem">Stopped', text)
        assert page.get(html.unescape(link)).status_code == 200
        ask = Ask("resume_group", name=name, group=HOSTILE)
        previews = re.findall(r'href="/preview\?([^"]*)"', text)
        assert ask.query() in [parse_qs(html.unescape(each))["what"][0] for each in previews]
        assert "come behind the other messages" in operator.preview(ask)
        assert operator.do(ask).endswith("goes on")
        assert operator.do(ask).endswith("it is not stopped")
        assert queue.pop() is not None
        queue.purge(dead=True)
    client.close()


def test_a_consumer_of_a_topic_is_moved(operator: Operator, target: Target, name: str) -> None:
    with Topic(target.make_client(), name) as topic:
        topic.publish_many([b"{}"] * 9)
        topic.subscribe("billing", "oldest")
        topic.commit(topic.consume("billing", 4))
        held = topic.consume("billing", 1)
        seek = Ask("seek", "topic", name, consumer="billing")
        assert "3 messages are delivered to it again" in operator.preview(seek, to="2")
        assert "4 messages are not delivered" in operator.preview(seek, to="9")
        assert "5 messages are not delivered" in operator.preview(seek, to="end")
        assert "Leases of its readers end" in operator.preview(seek, to="oldest")
        moved = "Move consumer billing to 2: the next message is 2"
        assert operator.do(Ask("seek", "topic", name, consumer="billing", to="2")) == moved
        with pytest.raises(LeaseLost):
            topic.commit(held)
        assert topic.position("billing") == 1
        for to in ("0", "-1", "x", "10000", "1e3"):
            assert operator.post(seek, to=to).status_code == 400, to


def test_workers_are_shown_and_ordered(
    operator: Operator, page: TestClient, queue: Queue, name: str
) -> None:
    queue.push({"id": "a"})
    for state, running in (("working", [("m-17", 2.0)]), ("quiet", [])):
        list_worker(queue, f"w-{state}", running, name=state, state=state, version="1.2")
    text = page.get("/workers").text
    for shown in ("m-17", "1 of 4", "ackq 1.2", ">working<", ">quiet<"):
        assert shown in text
    assert "finishes the messages" in operator.preview(Ask("stop_worker", name=name, worker="w"))
    for action, worker in (
        ("quiet_worker", "w-working"),
        ("resume_worker", "w-quiet"),
        ("stop_worker", "w-working"),
    ):
        assert "ordered" in operator.do(Ask(action, name=name, worker=worker))
    assert "it has ended" in operator.do(Ask("stop_worker", name=name, worker="w-none"))
    orders = {each.worker: each.order for each in queue.execute(entries)}
    assert orders == {b"w-working": "stop", b"w-quiet": "resume"}


def test_the_log_is_bounded_and_survives_the_page(
    target: Target, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation_log, "KEPT", 50)
    client = target.make_client()
    with operation_log.OperationLog(client) as first:
        for number in range(300):
            first.end(first.begin("ada", f"Do {number}{HOSTILE * 20}", "list", name), "x" * 9999)
        lost = first.begin("bob", "Vanish", "list", name)
    assert target.control.xlen(operation_log.KEY.decode()) < 200
    with operation_log.OperationLog(client) as second:
        found = second.newest(10)
    assert found is not None
    assert [each.id for each in found[:1]] == [lost]
    assert found[0].result is None
    assert found[1].what.startswith("Do 299'\"><img")
    assert len(found[1].result or "") == operation_log.MAX_TEXT
    with TestClient(application(client), base_url=ORIGIN) as http:
        assert logged(http)[0] == ("bob", "Vanish", "no result was recorded")
    target.control.delete(operation_log.KEY.decode())
    client.close()


FORGED = [
    {},
    {"origin": "http://evil.test"},
    {"origin": "null"},
    {"origin": "http://localhost:81"},
    {"origin": "http://localhost.evil.test"},
    {"origin": "ftp://localhost"},
    {"origin": "localhost"},
    {"origin": "http://localhost/"},
    {"origin": ORIGIN, "sec-fetch-site": "same-site"},
    {"origin": ORIGIN, "sec-fetch-site": "cross-site"},
    {"origin": ORIGIN, "sec-fetch-site": "none"},
    {"origin": ORIGIN, "host": "evil.test"},
    {"origin": "http://evil.test", "host": "evil.test"},
]


@pytest.fixture
def plain_page(plain_client: redis.Redis) -> Iterator[TestClient]:
    """A page that may operate, on one plain server."""
    with TestClient(application(plain_client, operate=True), base_url=ORIGIN) as http:
        yield http
    plain_client.delete(operation_log.KEY)


def test_a_forged_form_does_nothing(
    plain_page: TestClient, plain_client: redis.Redis, name: str
) -> None:
    plain_client.lpush(name, "{}")
    operator = Operator(plain_page)
    pause = Ask("pause", name=name)
    for headers in FORGED:
        assert operator.post(pause, headers=headers).status_code in (403, 421), headers
    for token in ("", "x", operator.token[:-1], operator.token.upper() + "é"):
        assert operator.post(pause, token=token).status_code == 403
    session = plain_page.cookies[COOKIE]
    for cookie in ("", "x", "A" * 43, session[:-1], session + "=", session + session):
        plain_page.cookies.clear()
        if cookie:
            plain_page.cookies.set(COOKIE, cookie, domain="localhost.local", path="/")
        for token in (operator.token, ""):
            assert operator.post(pause, token=token).status_code == 403, cookie
    for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x", ""):
        headers = {"origin": ORIGIN, "content-type": kind}
        assert plain_page.post("/operate", content=b"what=x", headers=headers).status_code == 415
    long = plain_page.post("/operate", data={"what": "x" * 70_000}, headers={"origin": ORIGIN})
    assert long.status_code == 413
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert plain_page.request(method, "/operate", headers={"origin": ORIGIN}).status_code == 405
    assert plain_client.exists(f"{name}PAUSED") == 0
    assert plain_client.exists(operation_log.KEY) == 0
    plain_page.cookies.clear()
    assert Operator(plain_page).post(pause).status_code == 303
    assert plain_client.exists(f"{name}PAUSED") == 1


def test_the_cookie_is_kept_from_scripts_and_other_sites(plain_page: TestClient) -> None:
    cookie = plain_page.get("/").headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "path=/" in cookie
    assert "set-cookie" not in plain_page.get("/").headers


def test_a_page_that_only_reads_has_no_route_for_a_form(http: TestClient, name: str) -> None:
    for path in ("/operate", "/preview?what=action%3Dpause%26name%3Dx"):
        assert http.get(path).status_code == 404
        reply = http.post(path, data={"what": "x"}, headers={"origin": ORIGIN})
        assert reply.status_code == 405
        assert reply.headers["allow"] == "GET, HEAD"
    text = http.get(path_of("queue", kind="list", name=name)).text
    assert 'method="post"' not in text
    assert "set-cookie" not in http.get("/").headers


@pytest.mark.parametrize(
    "ask",
    [
        Ask("purge", name="x"),
        Ask("", name="x"),
        Ask("pause", "topic", "x"),
        Ask("seek", name="x"),
        Ask("pause", name="x*"),
        Ask("drop", "odd", "x"),
        Ask("drop", name="x", entries=("+",)),
        Ask("drop", name="x", entries=("1-1", "1-1 x")),
        Ask("drop", name="x", until="x"),
        Ask("stop_job", name="x", job="none"),
        Ask("pause", "sharded", "x"),
        Ask("resume_group", name="x"),
        Ask("drop", name="x", until=f"{2**64}-0"),
    ],
)
def test_what_is_impossible_is_refused(plain_page: TestClient, ask: Ask) -> None:
    assert Operator(plain_page).post(ask).status_code == 400


def test_a_name_that_may_be_mistyped_is_not_paused(
    plain_page: TestClient, plain_client: redis.Redis, name: str
) -> None:
    assert Operator(plain_page).post(Ask("pause", name=name)).status_code == 404
    assert plain_client.exists(f"{name}PAUSED") == 0
    text = plain_page.get(path_of("queue", kind="list", name=name)).text
    assert "No such queue is known" in text
    assert ">Pause<" not in text
    plain_client.lpush(name, "{}")
    assert ">Pause<" in plain_page.get(path_of("queue", kind="list", name=name)).text
    assert Operator(plain_page).post(Ask("pause", name=name)).status_code == 303


def test_a_form_with_too_many_fields_is_refused(plain_page: TestClient) -> None:
    fields = {f"x{number}": "1" for number in range(501)}
    assert plain_page.get(path_of("preview", what="", **fields)).status_code == 400
    reply = plain_page.post("/operate", data=fields, headers={"origin": ORIGIN})
    assert reply.status_code == 400


def test_the_record_names_who_did_it(plain_client: redis.Redis, name: str) -> None:
    """Who: a login of the page, a header of a proxy, or the user of the application around it."""
    plain_client.lpush(name, "{}")
    pause = Ask("pause", name=name)

    def done_by(page: Any, **headers: str) -> str:
        with TestClient(page, base_url=ORIGIN, headers=headers) as http:
            Operator(http).do(pause)
            return logged(http)[0][0]

    class Person:
        is_authenticated = True
        display_name = "grace"

    class Stranger:
        is_authenticated = False

    def around(user: object) -> Any:
        page = application(plain_client, operate=True)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await page(scope | {"user": user} if scope["type"] == "http" else scope, receive, send)

        return app

    users = {"ada": "correct horse battery", "bob": "x" * 12}
    login = application(plain_client, operate=True, users=users)
    assert done_by(login, authorization="Basic YWRhOmNvcnJlY3QgaG9yc2UgYmF0dGVyeQ==") == "ada"
    proxied = application(plain_client, operate=True, user_header="X-Forwarded-User")
    assert done_by(proxied, **{"x-forwarded-user": HOSTILE}) == HOSTILE
    with TestClient(proxied, base_url=ORIGIN) as http:
        assert Operator(http).post(pause).status_code == 403
    open_page = application(plain_client, operate=True)
    assert done_by(open_page, **{"x-forwarded-user": "mallory"}) == "anonymous at testclient"
    assert done_by(around(Person())) == "grace"
    assert done_by(around("linus")) == "linus"
    assert done_by(around(Stranger())) == "anonymous at testclient"
    plain_client.delete(operation_log.KEY)


def test_a_token_of_one_user_is_none_of_another(plain_client: redis.Redis, name: str) -> None:
    plain_client.lpush(name, "{}")
    page = application(plain_client, operate=True, user_header="X-User")
    with TestClient(page, base_url=ORIGIN, headers={"x-user": "ada"}) as http:
        operator = Operator(http)
        headers = {"origin": ORIGIN, "x-user": "bob"}
        assert operator.post(Ask("pause", name=name), headers=headers).status_code == 403
        assert operator.post(Ask("pause", name=name)).status_code == 303
    plain_client.delete(operation_log.KEY)


def pause_under(http: TestClient, origin: str, path: str, name: str) -> None:
    """Press the button of a page whose links begin with /queues."""
    text = http.get(path, params={"kind": "list", "name": name}).text
    cookie = next(iter(http.cookies.jar))
    assert (cookie.path, cookie.secure) == ("/queues/", origin.startswith("https"))
    token = re.findall(r'name="token" value="(\w+)"', text)[0]
    (action,) = set(re.findall(r'method="post" action="([^"]*)"', text))
    assert action == "/queues/operate"
    reply = http.post(
        path.removesuffix("queue") + "operate",
        data={"token": token, "what": Ask("pause", name=name).query()},
        headers={"origin": origin, "cookie": f"{COOKIE}={cookie.value}"},
        follow_redirects=False,
    )
    assert reply.status_code == 303, reply.text
    where = urlsplit(reply.headers["location"])
    assert where.path == "/queues/queue"
    assert parse_qs(where.query)["name"] == [name]


def test_mounted_under_a_prefix_forms_work_as_in_django(
    plain_client: redis.Redis, name: str
) -> None:
    """As docs/web.md shows for asgi.py: the path keeps its prefix, and root_path names it."""
    plain_client.lpush(name, "{}")
    queues = application(plain_client, operate=True, hosts=["admin.example.com"])

    async def project(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] != "http" or scope["path"].startswith("/queues/")
        await queues(scope | {"root_path": "/queues"}, receive, send)

    origin = "https://admin.example.com"
    with TestClient(project, base_url=origin) as http:
        pause_under(http, origin, "/queues/queue", name)
    outer = Starlette(routes=[Mount("/queues", queues)])
    with TestClient(outer, base_url=origin) as http:
        pause_under(http, origin, "/queues/queue", name)
    assert plain_client.exists(f"{name}PAUSED") == 1
    plain_client.delete(operation_log.KEY)


def test_behind_a_proxy_that_removes_a_prefix_forms_work(
    plain_client: redis.Redis, name: str
) -> None:
    """uvicorn knows the prefix, and gets paths without it."""
    plain_client.lpush(name, "{}")
    page = application(plain_client, operate=True)
    with served(page, root_path="/queues") as url, httpx2.Client(base_url=url) as http:
        pause_under(http, url.rstrip("/"), "/queue", name)  # type: ignore[arg-type]
    plain_client.delete(operation_log.KEY)


def test_sentinel_is_asked_for_the_primary(fleet: Fleet, survey: Survey, name: str) -> None:
    if "sentinel" not in survey.offers:
        pytest.skip("there is no Sentinel here")
    target = fleet.get("sentinel")
    client = target.make_client()
    with TestClient(application(client, operate=True), base_url=ORIGIN) as http:
        with Queue(client, name) as queue:
            kill(queue, bad=3)
            assert Operator(http).do(Ask("redrive", name=name)).endswith("3 redriven")
            assert queue.stats().ready == 3
        assert len(logged(http)) == 1
        for path in ("/", "/workers", "/server", path_of("dead", name=name)):
            assert http.get(path).status_code == 200
    target.control.delete(operation_log.KEY.decode())
    client.close()
