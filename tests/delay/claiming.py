"""The raw scripts of claims on the keys of one delay queue."""

import hashlib
from typing import Any

from tests.delay.partition import Partition
from tests.queue.scripts.headers import parse, read
from tests.queue.scripts.space import NOW, SECOND, Value

TIMEOUT = 3600 * SECOND


class Claiming:
    """One group's claim with number 1, by the driver with epoch 1. ``now`` freezes the clock."""

    def __init__(self, partition: Partition, now: int | None = NOW) -> None:
        self.partition = partition
        self.client = partition.client
        self.now = now
        self.group = partition.key("claims:<group>")
        self.list = partition.key("claim:<group>:<batch>")
        self.client.hset(self.group, "epoch", 1)

    def call(self, script: str, *args: Value, change: tuple[str, str] | None = None) -> Any:
        text = read(self.partition.directory, f"delay/{script}")
        keys = [slot.name.replace("{queue}", self.partition.name) for slot in parse(text).keys]
        if self.now is not None:
            seconds, micros = divmod(self.now, SECOND)
            text = text.replace("redis.call('TIME')", f"{{'{seconds}', '{micros}'}}")
        if change is not None:
            assert text.count(change[0]) == 1
            text = text.replace(*change)
        self.client.script_load(text)
        sha = hashlib.sha1(text.encode()).hexdigest()
        return self.client.execute_command("EVALSHA", sha, len(keys), *keys, *args)

    def claim(
        self,
        messages: int = 2000,
        size: int = 0,
        batch: int = 1,
        epoch: int = 1,
        timeout: int = TIMEOUT,
        change: tuple[str, str] | None = None,
    ) -> Any:
        return self.call("claim", epoch, batch, messages, size, timeout, 0, change=change)

    def beat(self, chunk: int = 300, epoch: int = 1, batch: int = 1) -> Any:
        change = ("CHUNK = 300", f"CHUNK = {chunk}")
        return self.call("claim_beat", epoch, batch, TIMEOUT, change=change)

    def ack(self, chunk: int = 300, epoch: int = 1, batch: int = 1) -> Any:
        change = ("CHUNK = 300", f"CHUNK = {chunk}")
        return self.call("claim_ack", epoch, batch, batch, change=change)

    def give_back(self, chunk: int = 300) -> Any:
        """Release the claim, then return some of its messages."""
        self.client.zadd(self.partition.key("claims"), {self.list: 0}, xx=True)
        return self.call("claim_return", 1, change=("CHUNK = 300", f"CHUNK = {chunk}"))

    def read(self, start: int = 0, wanted: int = 300) -> dict[int, bytes]:
        """Return the keys of the messages that belong to the claim, by their places."""
        _, *values = self.call("claim_read", 1, start, wanted)
        return dict(zip(values[::4], values[2::4], strict=True))

    def ready(self) -> dict[bytes, int]:
        """Return when messages are ready, in µs."""
        scores = self.client.zrange(self.partition.key("z"), 0, -1, withscores=True)
        return {key: round(score * SECOND) for key, score in scores}

    def leases(self) -> dict[bytes, int]:
        scores = self.client.zrange(self.partition.key("leases"), 0, -1, withscores=True)
        return {key: round(score) for key, score in scores}

    def everything(self) -> dict[bytes, bytes]:
        keys = self.client.scan_iter(f"{self.partition.name}*", count=300)
        return {key: self.client.dump(key) for key in keys}
