"""The real servers that the suite runs on, started when a test first asks for them."""

import contextlib
from pathlib import Path

from . import cluster, container, debian, newest, oldest, sentinel, tls, valkey
from .private import private_server
from .process import free_port
from .target import Absent, Client, Offer, Target

__all__ = ["OFFERS", "Client", "Fleet", "Survey", "Target", "free_port", "private_server"]

#: What a machine may offer, by kind.
OFFERS = {
    "oldest": oldest.offer,
    "debian": debian.offer,
    "newest": newest.offer,
    "valkey": valkey.offer,
    "container": container.offer,
    "cluster": cluster.offer,
    "valkey-cluster": valkey.cluster_offer,
    "sentinel": sentinel.offer,
    "valkey-sentinel": valkey.sentinel_offer,
    "tls": tls.offer,
}
#: Kinds that are one server without TLS, and kinds that are a cluster; the usual ones first.
PLAIN = ("oldest", "debian", "container", "newest", "valkey")
CLUSTERS = ("cluster", "valkey-cluster")


class Survey:
    """What this machine has of ``wanted``, and why it lacks the rest."""

    def __init__(self, wanted: list[str]) -> None:
        self.offers: dict[str, Offer] = {}  # by kind, such as "oldest"
        self.absent: dict[str, str] = {}
        for kind in wanted:
            try:
                self.offers[kind] = OFFERS[kind]()
            except Absent as reason:
                self.absent[kind] = str(reason)

    def first(self, kinds: tuple[str, ...]) -> str | None:
        """Return the first of ``kinds`` that is offered."""
        return next((kind for kind in kinds if kind in self.offers), None)

    def header(self) -> list[str]:
        """Return the lines for pytest's header."""
        present = [
            f"{kind} {offer.version}{f' ({offer.note})' if offer.note else ''}"
            for kind, offer in self.offers.items()
        ]
        lines = [f"redis servers: {', '.join(present)}"]
        return lines + [f"  without {kind}: {reason}" for kind, reason in self.absent.items()]


class Fleet:
    """The servers of a session, each started once."""

    def __init__(self, survey: Survey, directory: Path) -> None:
        self._survey = survey
        self._directory = directory
        self._stack = contextlib.ExitStack()
        self._started: dict[str, Target] = {}
        #: Those that the running test has asked for.
        self.used: list[Target] = []

    def get(self, kind: str) -> Target:
        """Return the target of a kind, started if need be."""
        if kind not in self._started:
            offer = self._survey.offers[kind]
            target = self._stack.enter_context(offer.start(self._directory / kind))
            self._stack.callback(target.control.close)
            self._started[kind] = target
        target = self._started[kind]
        if target not in self.used:
            self.used.append(target)
        return target

    def close(self) -> None:
        """Stop them all."""
        self._started.clear()
        self._stack.close()
