"""The page in applications of FastAPI and Django, behind their logins, as docs/web.md shows."""

import importlib
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis
from starlette.testclient import TestClient

from ackq import Queue
from ackq.ops.samples import Sample
from ackq.web import application
from ackq.web.requests import Ask
from ackq.web.watcher import Watcher
from tests.examples import RunExamples, examples
from tests.waiting import wait_until
from tests.web.test_pages import walked

ORIGIN = "https://admin.example.com"
EXAMPLES = examples("docs/web.md")


@pytest.fixture
def run_example(
    run_examples: RunExamples, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], dict[str, Any]]:
    """Runs an example of the page on the server of this test."""
    monkeypatch.setenv("SECRET_KEY", "a secret of this test")
    return lambda number: run_examples("docs/web.md", number, {"__name__": "example"})


def test_the_page_has_these_examples() -> None:
    assert [re.search("fastapi|django", each)[0] for each in EXAMPLES] == ["fastapi", "django"]  # type: ignore[index]


def test_behind_the_login_of_fastapi(
    run_example: Callable[[int], dict[str, Any]], plain_client: redis.Redis, name: str
) -> None:
    from tests.web.fastapi_login import add_login

    example = run_example(0)
    app = example["app"]
    add_login(app, example["staff"])
    with TestClient(app, base_url=ORIGIN, follow_redirects=False) as http:
        assert http.get("/me").status_code == 403
        it_is_behind_the_login(http, plain_client, name, refusal=403)
        assert http.get("/me").status_code == 403


def test_behind_the_login_of_django(
    run_example: Callable[[int], dict[str, Any]],
    plain_client: redis.Redis,
    name: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    from tests.web.django_login import set_up

    set_up(tmp_path_factory)
    app = run_example(1)["application"]
    http = TestClient(app, base_url=ORIGIN, follow_redirects=False)  # Django has no lifespan
    # A page of Django's own, behind its middleware that asks for a login.
    assert http.get("/me").headers["location"].startswith("/login?next=")
    it_is_behind_the_login(http, plain_client, name, refusal=303)
    assert http.get("/me").status_code == 302


def it_is_behind_the_login(http: TestClient, client: redis.Redis, name: str, refusal: int) -> None:
    """Look, log in, follow every link, press a button, log out."""
    paths = ("/queues/", "/queues/live", "/queues/static/ackq.js", "/queues/operate")
    for path in paths:
        assert http.get(path).status_code == refusal, path
    assert http.post("/login", params={"user": "mallory"}).status_code == 200
    assert http.get("/queues/").status_code == refusal
    assert http.post("/login", params={"user": "ada"}).status_code == 200
    assert http.get("/me").text.strip('"') == "ada"

    with Queue(client, name) as queue:
        queue.push_many([{"id": "a"}, {"id": "b"}])
        queue.reject(*queue.pop_many(1), reason="bad")
        seen = walked(http, "/queues/", ("/static/", name))
        pages = ["", "queue", "dead", "letter", "body", "static/ackq.css", "static/ackq.js"]
        assert {path.partition("?")[0].removeprefix("/queues/") for path in seen}.issuperset(pages)

        text = http.get("/queues/queue", params={"kind": "list", "name": name}).text
        form = {
            "token": re.findall(r'name="token" value="(\w+)"', text)[0],
            "what": Ask("pause", name=name).query(),
        }

        def press(origin: str | None, **changed: str) -> int:
            headers = {} if origin is None else {"origin": origin}
            return http.post("/queues/operate", data=form | changed, headers=headers).status_code

        assert press(None) == press("https://evil.test") == press("null") == 403
        assert press(ORIGIN, token="0" * 64) == 403
        assert not queue.stats().paused
        assert press(ORIGIN) == 303
        assert queue.stats().paused
        assert "operating as ada" in http.get("/queues/").text
        assert ">ada</td>" in http.get("/queues/operations").text
        queue.resume()
        assert http.get("/queues/", headers={"host": "evil.test"}).status_code >= 400

        assert http.post("/logout").status_code == 200
        for path in paths:
            assert http.get(path).status_code == refusal, path
        assert press(ORIGIN) == refusal
        assert not queue.stats().paused


NamedPage = tuple[redis.Redis, Callable[[], int]]


@pytest.fixture
def named_page(plain_client: redis.Redis, name: str) -> NamedPage:
    """A client for a page, and what counts its connections."""
    settings = plain_client.connection_pool.connection_kwargs
    named = redis.Redis(host=settings["host"], port=settings["port"], client_name=f"page-{name}")
    return named, lambda: [each["name"] for each in plain_client.client_list()].count(
        f"page-{name}"
    )


@pytest.mark.parametrize("slow", [False, True], ids=["quick", "slow"])
def test_a_page_without_a_lifespan_closes_its_connections_when_nobody_looks(
    named_page: NamedPage, name: str, monkeypatch: pytest.MonkeyPatch, slow: bool
) -> None:
    monkeypatch.setattr(importlib.import_module("ackq.web.application"), "IDLE", 0.2)
    sample, close, closed = Watcher.sample, Watcher.close, threading.Event()

    def wait_and_sample(watcher: Watcher) -> Sample:
        assert closed.wait(20)
        return sample(watcher)

    def close_and_tell(watcher: Watcher) -> None:
        close(watcher)
        closed.set()

    if slow:  # a request that lasts longer than that
        monkeypatch.setattr(Watcher, "sample", wait_and_sample)
        monkeypatch.setattr(Watcher, "close", close_and_tell)
    named, connections = named_page
    http = TestClient(application(named, [name]), base_url="http://localhost")  # runs no lifespan
    for _ in range(2):
        assert http.get("/operations").status_code == http.get("/").status_code == 200
        named.close()  # the application's own
        wait_until(lambda: connections() == 0, "the connections to be closed")


def test_a_page_at_the_end_of_its_lifespan_has_no_connections_left(
    named_page: NamedPage, name: str
) -> None:
    named, connections = named_page
    with TestClient(application(named, [name]), base_url="http://localhost") as http:
        assert http.get("/operations").status_code == http.get("/").status_code == 200
        assert connections()
    named.close()
    wait_until(lambda: connections() == 0, "the connections to be closed")
