"""Draw the pictures of docs/web.md: the page in Chromium, over queues that are made up for it.

Run ``make pictures-of-the-page``. It takes about a minute and needs Chromium.
"""

import math
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import redis
import uvicorn
from playwright.sync_api import Page, sync_playwright
from starlette.types import Receive, Scope, Send

import ackq
from ackq import Groups, Queue
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.delay import DelayQueue
from ackq.embedded import Server
from ackq.ops.chronicle.minutes import Work, record
from ackq.ops.chronicle.store import history_key
from ackq.ops.operation_log import KEY, OperationLog
from ackq.ops.readings import Reading, Totals
from ackq.rsmq import RSMQ
from ackq.topic import Topic
from ackq.web import application
from ackq.web.access import address_of, listen
from ackq.worker.presence import encode_record, heartbeat

PICTURES = Path(__file__).parent.parent / "docs" / "_static"
#: Names of the list queues, a busier one after another.
QUEUES = ("orders", "emails", "thumbnails", "webhooks", "search-index", "invoices")
#: Seconds of traffic before the pictures are taken.
TRAFFIC = 30.0
#: Each picture: its name, the page, the width and height of the window, the scheme.
SHOTS: tuple[tuple[str, str, int, int, Literal["dark", "light"]], ...] = (
    ("web-overview", "", 1280, 860, "light"),
    ("web-queue", "queue?kind=list&name=webhooks", 1280, 700, "light"),
    ("web-groups", "queue?kind=list&name=exports#groups", 1280, 560, "light"),
    ("web-find", "find?name=invoices&q=invoices-900", 1280, 400, "light"),
    ("web-history", "queue?kind=list&name=webhooks&span=6h#past", 1280, 880, "light"),
    ("web-failures", "failures", 1280, 560, "light"),
    ("web-dead", "dead?name=webhooks", 1280, 560, "dark"),
    ("web-workers", "workers", 1280, 570, "light"),
    ("web-operations", "operations", 1280, 590, "light"),
    ("web-phone", "", 390, 800, "dark"),
)


#: States of the workers.
STATES = ("working", "working", "quieting", "working")
#: What made-up people did.
DONE = (
    ("grace", "Pause the queue", "list", "invoices", "paused"),
    (
        "ada",
        "Redrive dead letters with the cause “TimeoutError”",
        "list",
        "webhooks",
        "12 redriven",
    ),
    ("ada", "Cancel message user-3", "delay", "reminders", "canceled"),
    ("linus", "Move consumer billing to 120", "topic", "prices", "the next message is 120"),
)


class CardDeclined(Exception):
    """An error of the made-up handlers."""

    __module__ = "billing"


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
    webhooks = queues[QUEUES.index("webhooks")].schedules
    webhooks.put("retry-failed", {"task": "retry_failed"}, every=900)
    webhooks.put("weekly-report", {"task": "report"}, cron="0 9 * * 1", zone="Europe/Berlin")
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


def record_history(client: redis.Redis, queue: Queue) -> None:
    """Record six hours of a queue: an incident after a deployment, and its end."""
    key = history_key("list", queue.name)
    now = int(time.time())
    counts = dict.fromkeys(("pushed", "taken", "acked", "nacked"), 0)
    dead, ready = 0, 40.0
    with closing(route_of(client, key)) as route:
        driver = Driver(route)
        for minute in range(360, 0, -1):
            broken = 130 > minute > 70
            pushed = round(900 + 250 * math.sin(minute / 57) + random.uniform(-60, 60))
            failed = random.randint(60, 140) if broken else random.randint(0, 2)
            acked = min(round(ready + pushed), 700 if broken else 1400)
            ready = max(0.0, ready + pushed - acked)
            dead += failed // 4
            for name, count in zip(counts, (pushed, acked + failed, acked, failed), strict=True):
                counts[name] += count
            work = Work()
            for task, share, seconds in (("deliver", 0.7, 0.04), ("verify", 0.3, 0.4)):
                done = work.task(task)
                done.acked, done.failed = round(acked * share), failed * (task == "deliver")
                for _ in range(40):
                    slow = random.lognormvariate(1.2 if broken else 0.0, 0.8)
                    done.durations.add(seconds * slow)
                    work.durations.add(seconds * slow)
            states = {"ready": round(ready), "in_flight": 16, "delayed": 24, "dead": dead}
            totals = Totals(now - 21_700, dict(counts), {"max receives": dead}, now - 60 * minute)
            reading = Reading("list", queue.name, round(ready) + 16, states, totals=totals)
            reading = replace(reading, oldest_ready=ready / 14)
            driver.run(record(key, reading, now - 60 * minute, f"{minute}", work))


def enter_workers(queues: Sequence[Queue]) -> None:
    """Enter made-up workers into the lists of some queues."""
    for number, (queue, state) in enumerate(zip(queues, STATES, strict=False), 1):
        fields = {
            "name": f"{queue.name}-worker",
            "host": f"app-{number}",
            "pid": 4000 + number,
            "version": ackq.__version__,
            "state": state,
            "busy": number - 1,
            "concurrency": 8,
            "interval": 600,
            "lifetime": 600,
            "queues": [queue.name],
            "age": 7200.0 * number,
        }
        running = [(f"{queue.name}-{each}", 4.0 * each) for each in range(1, number)]
        record = encode_record(fields, running)
        queue.execute(heartbeat, f"app-{number}:{4000 + number}:a1", record, 600.0, b"")


def record_operations(client: redis.Redis) -> None:
    """Record operations of made-up users, and marks of two hours ago and later."""
    with OperationLog(client) as log:
        for minutes, mark in ((131, "deploy v2.3"), (71, "deploy v2.2 again")):
            at = round((time.time() - 60 * minutes) * 1000)
            fields = {"who": "ada", "what": mark, "result": "marked"}
            client.xadd(KEY, fields, id=f"{at}-0")  # type: ignore[arg-type]
        for user, operation, kind, queue, result in DONE:
            log.end(log.begin(user, operation, kind, queue), result)


def start_redrive(url: str, page: Page) -> None:
    """Redrive dead letters at a slow pace, so that a picture shows it."""
    page.goto(f"{url}dead?name=invoices")
    page.get_by_role("link", name="Redrive all").click()
    page.get_by_label("Pace").select_option("1")
    page.get_by_role("button", name="Redrive").click()


def work(queues: Sequence[Queue], seconds: float) -> None:
    """Push, take and ack for some time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for busy, queue in enumerate(queues, 2):
            queue.push_many([{"task": "resize"}] * random.randint(1, 3 * busy))
            queue.ack(*queue.pop_many(random.randint(1, 3 * busy + 1)))
        time.sleep(0.2)


def fill_groups(client: redis.Redis) -> None:
    """Put exports of tenants into a queue with groups, and take some of them."""
    with Queue(client, "exports", groups=Groups("tenant", in_flight=2)) as queue:
        for tenant in range(1, 40):
            queue.push_many(
                {"id": f"export-{tenant}-{n}", "tenant": f"tenant-{tenant}"}
                for n in range(4000 // tenant**2 + 1)
            )
            time.sleep(0.05)  # groups do not wait equally long
            taken = queue.pop_many(20, visibility_timeout=900)
        while queue.pop():
            pass
        queue.ack(*taken)


@contextmanager
def served(client: redis.Redis) -> Iterator[str]:
    """Serve the page, and yield its URL."""

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        await operating({**scope, "user": "ada"}, receive, send)

    operating = application(client, operate=True)
    with listen("127.0.0.1", 0, None) as listener:
        server = uvicorn.Server(uvicorn.Config(page, log_level="error", ws="none"))
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
        enter_workers(queues)
        fill_groups(client)
        record_operations(client)
        record_history(client, queues[QUEUES.index("webhooks")])
        with served(client) as url, sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            watching = chromium.new_page()
            watching.goto(url)  # rates and curves come while somebody looks
            worker = threading.Thread(target=work, args=(queues, TRAFFIC + 15))
            worker.start()
            watching.wait_for_timeout(TRAFFIC * 1000)
            start_redrive(url, watching)
            for name, page, width, height, scheme in SHOTS:
                shot = chromium.new_page(
                    viewport={"width": width, "height": height}, color_scheme=scheme
                )
                shot.goto(url + page)
                shot.screenshot(path=PICTURES / f"{name}.png")
            worker.join()
            chromium.close()


if __name__ == "__main__":
    main()
