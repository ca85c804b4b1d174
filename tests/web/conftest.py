"""Queues of every kind, full of hostile text, and a page that shows them."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest
import redis
from playwright.sync_api import Browser, expect, sync_playwright
from starlette.testclient import TestClient

from ackq import Queue
from ackq.delay import DelayQueue
from ackq.ops import operation_log, samples
from ackq.rsmq import RSMQ
from ackq.topic import Topic
from ackq.web import application, watcher
from ackq.web.access import address_of, listen
from ackq.web.connections import server_of
from ackq.web.guard import Guard
from tests.listed import list_worker
from tests.waiting import wait_until

#: Runs wherever it is taken for markup, in text and in attributes.
HOSTILE = """'"><img src=x onerror="window.canary=1"><script>window.canary=1</script>"""


@dataclass(frozen=True)
class Stock:
    """The names of the queues."""

    jobs: str
    reminders: str
    prices: str
    legacy: str


@pytest.fixture
def stock(plain_client: redis.Redis, token: str) -> Stock:
    """Queues of every kind: hostile names, ids, keys, bodies, reasons, errors and consumers."""
    jobs, reminders, prices = f"{token}/{HOSTILE}", f"{token} due {HOSTILE}", f"{token}-p-{HOSTILE}"
    with Queue(plain_client, jobs, max_receives=2) as queue:
        queue.push_many([{"id": f"{number}{HOSTILE}", "secret": HOSTILE} for number in range(6)])
        queue.reject(*queue.pop_many(1), reason=HOSTILE)
        for _ in range(2):
            queue.nack(*queue.pop_many(1), delay=0, error=KeyError(HOSTILE))
        queue.pop_many(1)
        queue.push({"id": f"later{HOSTILE}"}, delay=3600)
        queue.schedules.put(HOSTILE, {"text": HOSTILE}, every=3600)
        running = [(f"runs{HOSTILE}"[:64], 2.0)]
        list_worker(queue, HOSTILE, running, name=f"worker{HOSTILE}", host=HOSTILE)
    with DelayQueue(plain_client, reminders) as delay:
        delay.push(f"due{HOSTILE}", HOSTILE, delay=0)
        delay.push(f"later{HOSTILE}", HOSTILE, delay=3600)
        delay.push(f"dead{HOSTILE}", HOSTILE, delay=0)
        taken = delay.take(2)
        delay.reject(*taken, reason=HOSTILE)
        delay.push(f"due{HOSTILE}", HOSTILE, delay=0)
    with Topic(plain_client, prices) as topic:
        topic.subscribe(f"c{HOSTILE}", "oldest")
        topic.publish_many([HOSTILE.encode()] * 3)
    with RSMQ(plain_client, token) as rsmq:
        rsmq.create_queue("legacy")
        rsmq.send_message("legacy", HOSTILE)
    return Stock(jobs, reminders, prices, f"{token}:legacy")


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each request take new samples."""
    monkeypatch.setattr(watcher, "MIN_INTERVAL", 0)
    monkeypatch.setattr(samples, "PER_QUEUE", 0)


@pytest.fixture
def http(plain_client: redis.Redis) -> Iterator[TestClient]:
    """The page, without a browser."""
    page = application(plain_client)
    with TestClient(page, base_url="http://localhost") as client:
        yield client


@pytest.fixture
def site(plain_client: redis.Redis) -> Iterator[str]:
    """The URL of the page, served on a free port."""
    with served(application(plain_client)) as url:
        yield url


@pytest.fixture
def operating(plain_client: redis.Redis) -> Iterator[str]:
    """The URL of a page that may operate."""
    with served(application(plain_client, operate=True)) as url:
        yield url
    plain_client.delete(operation_log.KEY)


@contextmanager
def served(page: Guard, root_path: str = "") -> Iterator[str]:
    """Serve a page on a free port, and yield its URL."""
    with listen("127.0.0.1", 0, None) as listener:
        server = server_of(page, root_path)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        wait_until(lambda: server.started, "the page to be served")
        yield address_of(listener)
        server.should_exit = True
        thread.join()


# Not for the whole session: while Playwright runs, no other test can call asyncio.run().
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, to which every name that ends in .test is this machine."""
    # The shell takes half of the processor time.
    names = ("chromium-headless-shell", "chromium", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("no browser: apt install chromium")
    expect.set_options(timeout=30_000)  # ms; five seconds are too few on a busy machine
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--host-resolver-rules=MAP *.test 127.0.0.1"],
        )
        with closing(launched):
            yield launched
