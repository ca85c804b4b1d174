"""Handlers that get several messages at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ackq.config import Seconds, check_integer, check_seconds
from ackq.errors import ConfigurationError
from ackq.queue.messages import Message
from ackq.setting_types import check_fields
from ackq.worker.verdicts import Verdict

#: Most messages of one batch, and the longest wait for them in seconds.
MAX_SIZE = 10_000
MAX_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class Batch:
    """How many messages a handler gets at once.

    A batch is handled when it is full or when its first message has waited for ``wait`` seconds.
    The leases of its messages are renewed meanwhile.
    """

    #: The most messages of one batch, 1 to 10000. Defaults to 100.
    size: int = 100
    #: Seconds to wait for more messages, 0 to 60. Defaults to 0.1.
    wait: Seconds = 0.1

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            ConfigurationError: names the setting and its value.
        """
        check_fields(self, "batch.")
        check_integer(self.size, "batch.size", 1, MAX_SIZE)
        if check_seconds(self.wait, "batch.wait", zero=True) > MAX_WAIT:
            raise ConfigurationError(f"batch.wait is 0 to {MAX_WAIT:g} seconds, not {self.wait!r}")


class Failed(Verdict):
    """Some messages of a batch have failed. The others are done.

    Args:
        errors: what each failed message failed with: an exception, or `Retry`, `Reject` or
            `Release` to choose how it is settled.
    """

    def __init__(self, errors: Mapping[Message, BaseException]) -> None:
        super().__init__(errors)
        self.errors = dict(errors)
