"""docs/moving-from.md with the real Celery, RQ and BullMQ: both run at once, and the way back."""

import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from ackq import Queue
from ackq.embedded import Server
from tests.first_hour.environment import ROOT, Environments, run
from tests.servers.private import private_server
from tests.waiting import wait_until

PAGE = (ROOT / "docs" / "moving-from.md").read_text()
PYTHON = re.findall(r"^```python(?: no-run)?\n(.*?)^```", PAGE, re.M | re.S)
NODE = re.findall(r"^```js\n(.*?)^```", PAGE, re.M | re.S)
#: Written at the top of each module that does the work.
JOURNAL = """
import os, time

def done(by, what):
    time.sleep(0.01)
    with open(os.environ["JOURNAL"], "a") as journal:
        journal.write(f"{by} {what}\\n")

"""
#: The module of ackq's worker, where the page has no handler for it.
HANDLER = (
    JOURNAL
    + """
def handle(message):
    done("ackq", message.json()["image"])
"""
)
pytestmark = [
    pytest.mark.campaign,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("packaging"),
]


class Shop:
    """A folder with programs, the server that they use, and what they did."""

    def __init__(self, folder: Path, commands: Path, server: Server) -> None:
        self.folder, self.server = folder, server
        self._commands = commands
        self._journal = folder / "journal"
        self._running: list[subprocess.Popen[bytes]] = []

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def run(self, *command: str) -> str:
        return run(*self._found(command), cwd=self.folder, env=self._environment())

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(self._found(command), cwd=self.folder, env=self._environment())
        self._running.append(process)
        return process

    def stop(self) -> None:
        """End all running programs as an operator does, and wait for them."""
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            process.wait(60)
        self._running.clear()

    def kill(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()

    def did(self, by: str = "") -> Counter[str]:
        """Return how often each job was done by a program, or by any."""
        lines = self._journal.read_text().splitlines() if self._journal.exists() else []
        return Counter(line.split()[1] for line in lines if line.startswith(by))

    def _found(self, command: tuple[str, ...]) -> list[str]:
        own = self._commands / command[0]
        return [str(own) if own.exists() else command[0], *command[1:]]

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self._commands}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "PYTHONPATH": str(self.folder),
            "ACKQ_REDIS_URL": self.server.url,
            "JOURNAL": str(self._journal),
        }


@pytest.fixture
def shop(environments: Environments, tmp_path: Path) -> Iterator[Shop]:
    commands = environments("embedded", "celery[redis]", "rq")
    with private_server(tmp_path / "redis") as server:
        opened = Shop(tmp_path, commands, server)
        try:
            yield opened
        finally:
            opened.kill()


def test_celery(shop: Shop) -> None:
    shop.write(
        "shop.py",
        JOURNAL
        + f"""
from celery import Celery

app = Celery("shop", broker={shop.server.url!r})
app.conf.task_routes = {{"resize": "images"}}

@app.task(name="resize")
def resize(image, width=100):
    done("celery", image)

def send(first, number, **when):
    for n in range(first, first + number):
        resize.apply_async([f"image-{{n}}"], **when)
""",
    )
    shop.write(
        "tasks.py", JOURNAL + PYTHON[0] + "\nTASKS['resize'] = lambda image: done('ackq', image)\n"
    )
    work = ("ackq", "work", "tasks:handle", "-q", "images", "--lease", "2")
    celery = ("celery", "-A", "shop", "worker", "-Q", "images", "-c", "2", "--loglevel", "ERROR")
    send = "from shop import send; send({}, {}, countdown={})"
    shop.run("python", "-c", send.format(0, 600, 0))
    shop.run("python", "-c", send.format(600, 6, 4))
    shop.run("python", "-c", send.format(700, 4, 3600))
    shop.start(*celery)
    killed = shop.start(*work)
    wait_until(lambda: shop.did("ackq").total() > 20, "ackq does some tasks")
    killed.kill()
    shop.start(*work)
    wait_until(lambda: len(shop.did()) == 606, "all due tasks are done", 120)
    assert shop.did("celery")
    assert shop.did("ackq")
    shop.stop()
    shop.run("ackq", "dead", "redrive", "images", "--all")
    shop.run("ackq", "drain", "images", "--yes")
    with redis.Redis.from_url(shop.server.url) as client:
        assert client.llen("images") == 4  # in an hour
        before = shop.did("celery").total()
        shop.run("python", "-c", send.format(800, 20, 0))
        shop.start(*celery)
        wait_until(lambda: shop.did("celery").total() == before + 20, "Celery has it again", 60)
        wait_until(lambda: client.hlen("unacked") == 4, "Celery has the tasks of later")


def test_rq(shop: Shop) -> None:
    passes_on, back = (
        text.replace("from_url(None,", f"from_url({shop.server.url!r},").replace(
            "redis.Redis()", f"redis.Redis.from_url({shop.server.url!r})"
        )
        for text in PYTHON[1:3]
    )
    shop.write("tasks.py", passes_on)
    shop.write("work.py", HANDLER)
    shop.write("back.py", back)
    shop.write(
        "producer.py",
        f"""
import datetime, redis, sys
from rq import Queue
queue = Queue("default", connection=redis.Redis.from_url({shop.server.url!r}))
for n in range(60):
    queue.enqueue("tasks.resize", f"image-{{n}}", width=64)
queue.enqueue_in(datetime.timedelta(seconds=2), "tasks.resize", "image-soon")
queue.enqueue_in(datetime.timedelta(hours=1), "tasks.resize", "image-later")
""",
    )
    # A usual worker imports the module for each job.
    rq = ("rq", "worker", "-w", "rq.SimpleWorker", "-u", shop.server.url, "--with-scheduler")
    shop.start("ackq", "work", "work:handle", "-q", "images")
    shop.run("python", "producer.py")
    shop.start(*rq)
    wait_until(lambda: len(shop.did("ackq")) == 61, "ackq did the due jobs", 120)
    assert "image-later" not in shop.did()
    shop.stop()
    shop.write("tasks.py", JOURNAL + "def resize(image, width=100):\n    done('rq', image)\n")
    with Queue.from_url(shop.server.url, "images") as queue:
        queue.push_many([{"image": f"back-{n}", "width": 64} for n in range(20)])
        shop.start("ackq", "work", "back:handle", "-q", "images")
        shop.start(*rq)
        wait_until(lambda: len(shop.did("rq")) == 20, "RQ did the jobs again", 120)
        wait_until(lambda: not queue.stats().in_flight, "ackq has nothing left")


def test_bullmq(shop: Shop) -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no npm")
    run("npm", "install", "--silent", "--prefix", shop.folder, "bullmq", "ioredis")
    forwards, back = (
        text.replace("port: 6379", f"port: {shop.server.port}").replace(
            "new Redis()", f"new Redis({shop.server.port})"
        )
        for text in NODE
    )
    opened = f"""
import {{ Queue }} from "bullmq";
const connection = {{ host: "127.0.0.1", port: {shop.server.port} }};
const queue = new Queue("images", {{ connection }});
"""
    shop.write("forwards.mjs", forwards)
    shop.write(
        "producer.mjs",
        opened
        + """
for (let n = 0; n < 100; n++) await queue.add("resize", { image: `image-${n}` });
await queue.add("resize", { image: "image-first" }, { priority: 1 });
await queue.add("resize", { image: "image-soon" }, { delay: 3000 });
await queue.add("resize", { image: "image-later" }, { delay: 3600_000 });
await queue.close();
""",
    )
    shop.write(
        "back.mjs",
        opened
        + f"""
import Redis from "ioredis";
const redis = new Redis({shop.server.port});
"""
        + back
        + "await queue.close(); redis.disconnect();\n",
    )
    shop.write(
        "count.mjs",
        opened + "console.log(await queue.getWaitingCount()); await queue.close();\n",
    )
    shop.write("work.py", HANDLER)
    shop.start("ackq", "work", "work:handle", "-q", "images")
    shop.run("node", "producer.mjs")
    shop.start("node", "forwards.mjs")
    wait_until(lambda: len(shop.did("ackq")) == 102, "ackq did the due jobs", 120)
    assert "image-later" not in shop.did()
    shop.stop()
    with Queue.from_url(shop.server.url, "images") as queue:
        queue.push_many([{"task": "resize", "image": f"back-{n}"} for n in range(20)])
        assert queue.pop() is not None
        shop.run("ackq", "drain", "images", "--yes")
        shop.run("node", "back.mjs")
        assert queue.stats().ready == queue.stats().in_flight == 0
    assert shop.run("node", "count.mjs").strip() == "20"
