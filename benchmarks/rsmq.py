"""Send, receive and delete: ackq's RSMQ beside PyRSMQ, and how long a waiting consumer waits.

All contestants run in one process, in turns, on one server; ratios are taken within a round.
PyRSMQ has no batches: its batch contestant sends, receives and deletes 100 messages singly.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import random
import string
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import redis
from rsmq import RedisSMQ

from ackq.rsmq import RSMQ
from benchmarks import report
from benchmarks.harness import Ratio, Round, ServerCpu, cycles_for, measure, paired, rotations
from benchmarks.servers import target

#: Messages of one batch.
BATCH = 100
#: Characters of a message.
SIZE = 100
NS = "ackq-benchmark"
#: Seconds; longer than any run.
LONG = 9_999_999

Rounds = dict[str, list[Round]]


class Contestant(ABC):
    """Sends, receives and deletes ``batch`` messages in a queue of its own, one connection."""

    def __init__(self, url: str, qname: str, text: str, batch: int) -> None:
        self.client: redis.Redis = redis.Redis.from_url(url, decode_responses=True)
        self.rsmq = RSMQ(self.client, NS)
        self.qname, self.text, self.batch = qname, text, batch
        self.clear()
        self.rsmq.create_queue(qname, vt=LONG)

    @abstractmethod
    def cycle(self) -> int:
        """Send, receive and delete ``batch`` messages; return how many were deleted."""

    def clear(self) -> None:
        """Delete the queue."""
        keys = [f"{NS}:{self.qname}", f"{NS}:{self.qname}:Q"]
        self.client.delete(*keys)
        self.client.srem(f"{NS}:QUEUES", self.qname)

    def close(self) -> None:
        """Delete the queue and disconnect."""
        self.clear()
        self.rsmq.close()
        self.client.close()


class Ackq(Contestant):
    """ackq, one by one."""

    def cycle(self) -> int:
        self.rsmq.send_message(self.qname, self.text)
        message = self.rsmq.receive_message(self.qname)
        return int(message is not None and self.rsmq.delete_message(self.qname, message.id))


class AckqBatch(Contestant):
    """ackq, in batches."""

    def cycle(self) -> int:
        self.rsmq.send_messages(self.qname, [self.text] * self.batch)
        messages = self.rsmq.receive_messages(self.qname, self.batch)
        return self.rsmq.delete_messages(self.qname, [message.id for message in messages])


class PyRSMQ(Contestant):
    """PyRSMQ: all sends, then all receives, then all deletes."""

    def __init__(self, url: str, qname: str, text: str, batch: int) -> None:
        super().__init__(url, qname, text, batch)
        self.peer = RedisSMQ(client=self.client, ns=NS, qname=qname)

    def cycle(self) -> int:
        for _ in range(self.batch):
            self.peer.sendMessage(message=self.text).execute()
        ids = [self.peer.receiveMessage().execute()["id"] for _ in range(self.batch)]
        return sum(self.peer.deleteMessage(id=id).execute() for id in ids)


CONTESTANTS: dict[str, tuple[type[Contestant], int]] = {
    "ackq": (Ackq, 1),
    "PyRSMQ": (PyRSMQ, 1),
    "ackq, batch": (AckqBatch, BATCH),
    "PyRSMQ, batch": (PyRSMQ, BATCH),
}


def run(url: str, settings: argparse.Namespace) -> Rounds:
    """Measure every contestant in every round."""
    text = "".join(random.Random(settings.seed).choices(string.ascii_letters, k=SIZE))
    with ExitStack() as stack:
        cpu = ServerCpu(url)
        stack.callback(cpu.close)
        players: dict[str, tuple[Contestant, int]] = {}
        for number, (name, (make, batch)) in enumerate(CONTESTANTS.items()):
            player = make(url, f"q{number}", text, batch)
            stack.callback(player.close)
            players[name] = player, cycles_for(player.cycle, settings.seconds)
        rounds: Rounds = {name: [] for name in players}
        for order in rotations(list(players), settings.rounds):
            for name in order:
                player, cycles = players[name]
                rounds[name].append(measure(player.cycle, player.batch, cycles, cpu))
        return rounds


def waits(url: str, count: int) -> dict[str, list[float]]:
    """Return the milliseconds from a send to the end of a blocking receive, by who sends."""
    found: dict[str, list[float]] = {}
    with (
        redis.Redis.from_url(url, decode_responses=True) as client,
        RSMQ(client, NS) as sender,
        RSMQ(client, NS) as waiter,
        ThreadPoolExecutor(1) as pool,
    ):
        sender.create_queue("waits", vt=LONG)
        peer = RedisSMQ(client=client, ns=NS, qname="waits")
        senders: dict[str, Callable[[], Any]] = {
            "sent by ackq": lambda: sender.send_message("waits", "m"),
            "sent by PyRSMQ": lambda: peer.sendMessage(message="m").execute(),
        }
        for name, send in senders.items():
            found[name] = [_wait(client, waiter, pool, send) for _ in range(count)]
        sender.delete_queue("waits")
    return found


def _wait(
    client: redis.Redis, waiter: RSMQ, pool: ThreadPoolExecutor, send: Callable[[], Any]
) -> float:
    waiting = pool.submit(lambda: (waiter.pop_message("waits", timeout=30), time.perf_counter()))
    while not int(client.info("clients")["blocked_clients"]):
        time.sleep(0.001)
    time.sleep(random.random())  # at any moment of its wait
    sent_at = time.perf_counter()
    send()
    message, came_at = waiting.result()
    if message is None:
        raise AssertionError("the waiter missed a message")
    return (came_at - sent_at) * 1000


def ratios_of(rounds: Rounds) -> list[Ratio]:
    """Compare who is to be compared."""
    found = []
    for tail, goal in (("", 2), (", batch", 10)):
        above, below = rounds[f"ackq{tail}"], rounds[f"PyRSMQ{tail}"]
        name = f"ackq{tail} / PyRSMQ{tail}"
        found += [
            Ratio(f"{name}: throughput", paired(above, below, lambda each: each.rate), goal),
            Ratio(f"{name}: server time", paired(above, below, lambda each: each.server_us)),
        ]
    return found


def summary_of(rounds: Rounds) -> dict[str, report.Figures]:
    """Return the figures of each contestant."""
    return {
        name: {
            "messages/s": report.as_figure([each.rate for each in found]),
            "server µs/message": report.as_figure([each.server_us for each in found]),
        }
        for name, found in rounds.items()
    }


def main() -> None:
    """Measure, print, write."""
    options = report.parser("rsmq", "Send, receive and delete messages of 100 characters.")
    options.add_argument("--rounds", type=int, default=12, help="default: 12")
    options.add_argument(
        "--seconds", type=float, default=0.6, help="of each contestant in each round; default: 0.6"
    )
    options.add_argument("--waits", type=int, default=20, help="waits for each sender; default: 20")
    settings = options.parse_args()
    if settings.smoke:
        settings.rounds, settings.seconds, settings.waits = 2, 0.02, 1
    with target(settings.url) as server:
        facts = report.circumstances(server, settings)
        facts["versions"]["PyRSMQ"] = importlib.metadata.version("PyRSMQ")
        print(report.describe(facts), flush=True)
        rounds = run(server.url, settings)
        waited = waits(server.url, settings.waits)
    summary, ratios = summary_of(rounds), ratios_of(rounds)
    for name, values in waited.items():
        summary[name] = {"ms until received": report.as_figure(values)}
    print(report.figures_table(summary))
    print()
    print(report.ratio_table("ratio within a round", ratios))
    contestants = {
        name: {**figures, "rounds": [asdict(each) for each in rounds.get(name, [])]}
        for name, figures in summary.items()
    }
    report.write(
        settings.json,
        {
            "benchmark": "rsmq",
            **facts,
            "contestants": contestants,
            "ratios": [each.as_json() for each in ratios],
        },
    )


if __name__ == "__main__":
    main()
