"""`ClaimsBase`: what the clients of claims have in common. Blocking."""

from __future__ import annotations

from typing import Any, Self

from ackq.core import claim_groups
from ackq.core.claim_groups import ClaimGroup
from ackq.core.client import Client, client_of


class ClaimsBase(Client):
    """A group of claims on a queue of any kind."""

    _group: ClaimGroup

    @classmethod
    def from_url(cls, url: str | None, name: str, group: str, **settings: Any) -> Self:
        """Return group ``group`` of queue ``name`` on the server at ``url``.

        Args:
            url: as in `redis.Redis.from_url`. None: use the embedded server; start it if needed.
            name: name of the queue.
            group: name of the group.
            settings: the keyword arguments of the class.

        Raises:
            ConfigurationError: the URL is invalid. The error does not show its password.
            ServerNotFound: there is no URL, and no redis-server was found.
        """
        return cls(client_of(url), name, group, **settings)  # type: ignore[call-arg]

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self._key

    @property
    def group(self) -> str:
        """The name of the group."""
        return self._group.name

    @property
    def epoch(self) -> int:
        """The epoch that `begin` returned; 0 before `begin` and after `release`."""
        return self._group.epoch

    def adopt(self, epoch: int) -> None:
        """Use an ``epoch`` that `begin` returned in another process of the same driver.

        Nothing is sent. Later changes raise `Fenced` if this is not the group's epoch.
        """
        self._group.epoch = epoch

    def numbers(self) -> tuple[int, int]:
        """Return the highest batch numbers that the group claimed and acked; 0 before the first."""
        return self._run(claim_groups.numbers(self._group))

    def now(self) -> int:
        """Return the server's time in microseconds since the epoch."""
        return self._run(claim_groups.now(self._group))
