"""Draw the pictures of docs/web.md: the page in Chromium, over queues that are made up for it.

Run ``make pictures-of-the-page``. It takes about a minute and needs Chromium.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import redis
import uvicorn
from playwright.sync_api import sync_playwright

from ackq import Queue
from ackq.delay import DelayQueue
from ackq.embedded import Server
from ackq.rsmq import RSMQ
from ackq.topic import Topic
from ackq.web import application
from ackq.web.access import address_of, listen

PICTURES = Path(__file__).parent.parent / "docs" / "_static"
#: Names of the list queues, a busier one after another.
QUEUES = ("orders", "emails", "thumbnails", "webhooks", "search-index", "invoices")
#: Seconds of traffic before the pictures are taken.
TRAFFIC = 30.0
#: Each picture: its name, the page, the width and height of the window, the scheme.
SHOTS: tuple[tuple[str, str, int, int, Literal["dark", "light"]], ...] = (
    ("web-overview", "", 1280, 860, "light"),
    ("web-dead", "dead?name=webhooks", 1280, 560, "dark"),
    ("web-phone", "", 390, 800, "dark"),
)


class CardDeclined(Exception):
    """An error of the made-up handlers."""


ERRORS = (CardDeclined("insufficient funds"), TimeoutError("no reply in 10 s"), KeyError("total"))


def stock(client: redis.Redis) -> list[Queue]:
    """Fill queues of every kind."""
    queues = [Queue(client, name) for name in QUEUES]
    for busy, queue in enumerate(queues, 1):
        queue.push_many([{"id": f"{queue.name}-{number}"} for number in range(40 * busy**2)])
        queue.push_many([{"id": f"later-{number}"} for number in range(6 * busy)], delay=3600)
        for message in queue.pop_many(4 * busy):
            queue.reject(message, error=random.choice(ERRORS))
        queue.pop_many(busy)
    queues[-1].pause()
    with DelayQueue(client, "reminders") as reminders:
        for number in range(40):
            reminders.push(f"user-{number}", {"user": number}, delay=number * 30)
    with Topic(client, "prices") as prices:
        prices.subscribe("billing", "oldest")
        prices.publish_many([{"price": number} for number in range(300)])
    with RSMQ(client) as rsmq:
        rsmq.create_queue("legacy")
        rsmq.send_messages("legacy", [f"m{number}" for number in range(12)])
    return queues


def work(queues: Sequence[Queue], seconds: float) -> None:
    """Push, take and ack for some time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for busy, queue in enumerate(queues, 2):
            queue.push_many([{"task": "resize"}] * random.randint(1, 3 * busy))
            queue.ack(*queue.pop_many(random.randint(1, 3 * busy + 1)))
        time.sleep(0.2)


@contextmanager
def served(client: redis.Redis) -> Iterator[str]:
    """Serve the page, and yield its URL."""
    with listen("127.0.0.1", 0, None) as listener:
        server = uvicorn.Server(uvicorn.Config(application(client), log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield address_of(listener)
        server.should_exit = True
        thread.join()


def main() -> None:
    """Draw all pictures."""
    path = shutil.which("chromium") or sys.exit("Chromium is not there: apt install chromium")
    random.seed(7)
    with tempfile.TemporaryDirectory() as folder, Server(folder) as server:
        client = redis.Redis.from_url(server.url)
        queues = stock(client)
        with served(client) as url, sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            watching = chromium.new_page()
            watching.goto(url)  # rates and curves come while somebody looks
            worker = threading.Thread(target=work, args=(queues, TRAFFIC))
            worker.start()
            watching.wait_for_timeout(TRAFFIC * 1000)
            for name, page, width, height, scheme in SHOTS:
                shot = chromium.new_page(viewport={"width": width, "height": height},
                                         color_scheme=scheme)  # fmt: skip
                shot.goto(url + page)
                shot.screenshot(path=PICTURES / f"{name}.png")
            worker.join()
            chromium.close()


if __name__ == "__main__":
    main()
