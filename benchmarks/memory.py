"""How much of the server's memory does a message take, ready and in flight?

Measured is the growth of the server's ``used_memory``, as the allocator reports it, without the
buffers of clients. Hash tables double: just above a power of two, the table is twice as large as
just below. So each round has another number of messages, spread over one doubling.
"""

import random
import string
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
import redis

from ackq import Queue
from ackq.bench.contestants import CONSUMER, GROUP, LONG
from ackq.bench.figures import Measure, Ratio, Result
from ackq.bench.rounds import rotations
from ackq.queue.keys import QueueKeys
from benchmarks.frame import Options, Settings, facts, progress
from benchmarks.servers import target
from benchmarks.workers.environments import Absent, version_of
from benchmarks.workers.filling import PEERS, PeerProcess

PURPOSE = "Bytes of a message, ready and in flight."
#: The prefix of every key.
KEY = "ackq-benchmark:memory"
#: Messages of one call.
CHUNK = 1000
#: A peer gets this share of the messages, since it takes them one by one.
PEER_SHARE = 4
#: Target in flight, as a multiple of a stream's pending entry with its message.
CEILING = 1.5


def options(options: Options) -> None:
    """Add the options."""
    options.size("messages", 65_536, quick=16_384, smoke=1024, help="at least, in a round")
    options.size("rounds", 4, quick=2, smoke=1, help="spread over one doubling of the messages")
    options.size("ids", (8, 20, 36), smoke=(20,), help="length of the ids")
    options.size("sizes", (100, 300, 1000), quick=(100,), smoke=(100,), help="bytes of a message")
    options.add_argument(
        "--no-peers",
        action="store_true",
        help="leave out peers that must be installed first; so does --smoke",
    )


class Holder(ABC):
    """A contestant that holds messages."""

    def __init__(self, url: str, id_size: int, size: int) -> None:
        self.client: redis.Redis = redis.Redis.from_url(url, socket_timeout=600)
        self.id_size, self.size = id_size, size

    @abstractmethod
    def fill(self, count: int) -> None:
        """Push ``count`` messages."""

    @abstractmethod
    def take(self, count: int) -> None:
        """Take all messages and settle none."""

    def parts(self) -> dict[str, bytes]:
        """Return the keys to report separately, by what they contain."""
        return {}

    def close(self) -> None:
        self.client.close()


class Ackq(Holder):
    """A list queue."""

    def __init__(self, url: str, id_size: int, size: int) -> None:
        super().__init__(url, id_size, size)
        self._queue = Queue(self.client, KEY, visibility_timeout=LONG)

    def fill(self, count: int) -> None:
        for chunk in chunks(bodies(count, self.id_size, self.size)):
            self._queue.push_many(chunk)

    def take(self, count: int) -> None:
        while count > 0:
            count -= len(self._queue.pop_many(min(count, CHUNK)))

    def parts(self) -> dict[str, bytes]:
        keys = QueueKeys.of(KEY)
        return {"deadlines (zset)": keys.backup, "bodies (hash)": keys.context}

    def close(self) -> None:
        self._queue.close()
        super().close()


class Stream(Holder):
    """A stream with a consumer group; in flight is an entry that is pending."""

    def fill(self, count: int) -> None:
        for chunk in chunks(bodies(count, self.id_size, self.size)):
            pipeline = self.client.pipeline(transaction=False)
            for body in chunk:
                pipeline.xadd(KEY, {"body": body})
            pipeline.execute()
        self.client.xgroup_create(KEY, GROUP, id="0")

    def take(self, count: int) -> None:
        for _ in range(0, count, CHUNK):
            self.client.xreadgroup(GROUP, CONSUMER, {KEY: ">"}, count=CHUNK)


class BareList(Holder):
    """A list; messages taken from it are no longer on the server."""

    def fill(self, count: int) -> None:
        for chunk in chunks(bodies(count, self.id_size, self.size)):
            self.client.lpush(KEY, *chunk)

    def take(self, count: int) -> None:
        pass


class Peer(Holder):
    """A peer in its own process and environment."""

    def __init__(self, name: str, url: str, id_size: int, size: int) -> None:
        super().__init__(url, id_size, size)
        self._peer = PeerProcess(PEERS[name], url, id_size, size)

    def fill(self, count: int) -> None:
        self._peer.do("fill", count)

    def take(self, count: int) -> None:
        self._peer.do("take", count)

    def close(self) -> None:
        self._peer.close()
        super().close()


Make = Callable[[str, int, int], Holder]


@dataclass(frozen=True, slots=True)
class Case:
    """Messages of one size, with ids of one size."""

    id_size: int
    size: int

    def named(self, state: str) -> str:
        return f"{state}, {self.size} B, id of {self.id_size}"


#: Bytes a message of each contestant in each state, and those of ackq's keys.
Found = dict[tuple[str, str], list[float]]


def bodies(count: int, id_size: int, size: int) -> Iterator[bytes]:
    """Yield messages of ``size`` bytes as JSON, with ids of ``id_size``, no two the same."""
    draw = random.Random(1)
    room = size - len(orjson.dumps({"id": "x" * id_size, "payload": ""}))
    for number in range(count):
        name = f"{number:08x}" + "".join(draw.choices(string.hexdigits, k=id_size - 8))
        yield orjson.dumps({"id": name, "payload": "".join(draw.choices("abcdefgh", k=room))})


def chunks(messages: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Yield messages in lists."""
    chunk: list[bytes] = []
    for message in messages:
        chunk.append(message)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def used_memory(client: redis.Redis) -> int:
    """Return the bytes that the server uses, without the buffers of its clients."""
    while True:
        info: Any = client.info("memory")
        if not info.get("lazyfree_pending_objects"):
            return int(info["used_memory"]) - int(info["mem_clients_normal"])
        time.sleep(0.01)


def clear(client: redis.Redis) -> None:
    """Delete the keys of this benchmark."""
    for key in client.scan_iter(f"{KEY}*", count=10_000):
        client.delete(key)


def hold(make: Make, url: str, case: Case, count: int) -> dict[str, float]:
    """Return the bytes per message in each state, and those of its parts in flight."""
    holder = make(url, case.id_size, case.size)
    try:
        # Run once before measuring, so that scripts are loaded and one-time data exists.
        holder.fill(10)
        holder.take(10)
        clear(holder.client)
        empty = used_memory(holder.client)
        holder.fill(count)
        ready = used_memory(holder.client)
        holder.take(count)
        taken = used_memory(holder.client)
        found = {"ready": (ready - empty) / count, "in flight": (taken - empty) / count}
        for what, key in holder.parts().items():
            size: Any = holder.client.memory_usage(key, samples=0)
            found[what] = (size or 0) / count
    finally:
        clear(holder.client)
        holder.close()
    return found


def run(settings: Settings) -> Result:
    """Measure every shape, the contestants in turns."""
    with target(settings.url) as server:
        result = Result("memory", facts(server, settings))
        makes: dict[str, Make] = {"ackq": Ackq, "streams": Stream, "bare list": BareList}
        if not settings.no_peers and settings.pace != "smoke":
            makes |= _peers(result)
        for size in settings.sizes:
            for id_size in settings.ids:
                case = Case(id_size, size)
                progress(case.named("messages"))
                _report(result, case, _measure(server.url, case, makes, settings))
    result.notes.append(
        "ackq keeps the id of a message in flight twice, as the member of a sorted set and as the"
        " field of a hash, each in a hash table of its own, with a node of a skip list beside; a"
        " stream packs its entries and keeps two small records of each pending one. What that"
        " comes to depends on the version of Redis and on its allocator: see the versions above."
    )
    return result


def _peers(result: Result) -> dict[str, Make]:
    """Return the available peers and record their versions, with a note for each missing one."""
    makes: dict[str, Make] = {}
    for name, peer in PEERS.items():
        try:
            result.facts["versions"][peer.name] = version_of(peer)
            makes[name] = partial(Peer, name)
        except Absent as reason:
            result.notes.append(f"{name} is absent: {reason}")
    return makes


def _measure(url: str, case: Case, makes: dict[str, Make], settings: Settings) -> Found:
    found: Found = {}
    for at, order in enumerate(rotations(list(makes), settings.rounds)):
        count = round(settings.messages * 2 ** (at / settings.rounds)) + 1
        for name in order:
            each = hold(makes[name], url, case, count // (PEER_SHARE if name in PEERS else 1))
            for state, value in each.items():
                found.setdefault((name, state), []).append(value)
    return found


def _report(result: Result, case: Case, found: Found) -> None:
    measures = []
    for (name, state), values in found.items():
        if name == "bare list" and state == "in flight":
            continue
        whole = state in ("ready", "in flight")
        where = case.named(state if whole else "in flight")
        figure = "memory" if whole else f"of that {state}"
        measures.append(Measure(where, name, figure, "bytes/message", tuple(values)))
    result.measures += sorted(measures, key=lambda each: each.case, reverse=True)
    for state, ceiling in (("ready", None), ("in flight", CEILING)):
        what = f"{case.named(state)}: ackq / streams: memory"
        pair = found["ackq", state], found["streams", state]
        result.ratios.append(Ratio.of(what, *pair, ceiling, ceiling=True))
