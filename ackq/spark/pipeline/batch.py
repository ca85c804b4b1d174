"""A batch by the name under which every run and every sink knows it, and who may write it."""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

from ackq.errors import Fenced
from ackq.spark import offsets
from ackq.spark.offsets import Offset
from ackq.spark.options import EPOCHS, Reading
from ackq.spark.shards import KEEP, Shards


class Takeover:
    """What this run has taken over: the claims of its source. Another run may take them from it.

    A topic has no claims, so two runs are kept apart by the checkpoint alone.
    """

    def __init__(self, reading: Reading) -> None:
        """Take over."""
        #: Names the source and its group in folders and keys.
        self.writer = hashlib.sha256(reading.source.encode()).hexdigest()[:12]
        self._reading = reading
        self._shards = None if reading.target.kind == "topic" else Shards(reading)
        if self._shards is not None:
            self._shards.begin()
        #: When that was, in µs since the epoch: higher than that of all earlier runs.
        self.time = time.time_ns() // 1000 if self._shards is None else self._shards.now()

    @property
    def options(self) -> dict[str, str]:
        """The options with which the source adopts what was taken over."""
        return {} if self._shards is None else {EPOCHS: self._shards.epochs}

    def check_checkpoint(self, finished: Offset | None, planned: Offset | None) -> None:
        """Check that the checkpoint and Redis agree; see `Shards.check_checkpoint`.

        Args:
            finished: where the last batch that is done ends; None: there is none.
            planned: where the last one that is planned ends.
        """
        if self._shards is not None and planned is not None:
            source = self._reading.source
            done = 0 if finished is None else offsets.read(finished, source, "batch")[0]
            self._shards.check_checkpoint(done, offsets.read(planned, source, "batch")[0])

    def check(self) -> None:
        """Check that no other run has taken over since.

        Raises:
            Fenced: one has.
        """
        if self._shards is not None:
            self._shards.check_group()

    def raise_if_fenced(self, error: BaseException) -> None:
        """Raise `Fenced` from another error, if another run has taken over."""
        try:
            self.check()
        except Fenced as fenced:
            raise fenced from error
        except Exception:  # Redis cannot be reached: the first error tells more
            return

    def ack(self, end: Offset) -> None:
        """Ack the batches up to a finished one, unless another run has taken over."""
        if self._shards is not None:
            with suppress(Fenced):
                self._shards.ack(end["batch"], KEEP)

    def batch(self, number: int, end: Offset) -> Batch:
        """Return the batch that ends at an offset; ``number`` is Spark's."""
        version = end["batch"] if "batch" in end else end["index"]
        return Batch(number, self.writer, version, offsets.messages(end), self)


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch, named by the claim that it consists of, or by the last index of a topic.

    Spark's number of a batch is used again if a checkpoint is restored, so it names nothing.
    """

    #: Spark's number, for people.
    number: int
    writer: str
    #: The number of the claim, which rises from batch to batch.
    version: int
    rows: int
    takeover: Takeover = field(compare=False)
    #: Names the attempt of this process.
    token: str = field(default_factory=lambda: uuid4().hex, compare=False)

    @property
    def name(self) -> str:
        """The name: unique to the claim, and the same in every run. Names sort as batches do."""
        return f"{self.writer}-{self.version:016d}"

    @property
    def draft(self) -> str:
        """The name of what this attempt writes before it is published: name, run, attempt."""
        return f"{self.name}.{self.takeover.time:016d}.{self.token}"
