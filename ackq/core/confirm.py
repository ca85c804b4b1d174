"""Wait until replicas or disks have a write."""

from __future__ import annotations

from typing import Any

from redis.exceptions import NoPermissionError, ResponseError

from ackq.config import Confirm
from ackq.core.effects import Operation, Request
from ackq.errors import (
    NotConfirmed,
    UnsupportedServer,
)


def require_confirmable(confirm: Confirm) -> Operation[None]:
    """Raise an error, before any write, if the server cannot give this confirmation.

    Raises:
        UnsupportedServer: fsync is required, and the server has no WAITAOF.
    """
    if not confirm.fsync:
        return
    try:
        known = yield Request((b"COMMAND", b"INFO", b"WAITAOF"), resend=True)
    except NoPermissionError:
        return
    if not known or not known[0]:
        raise UnsupportedServer(
            "confirm with fsync needs WAITAOF, which came with Redis 7.2: upgrade the server,"
            " or confirm replicas alone. Nothing was sent"
        )


def check_confirmed(confirm: Confirm, reply: Any) -> None:
    """Raise `NotConfirmed` if the reply to WAIT or WAITAOF is below the required count."""
    if isinstance(reply, ResponseError):
        raise NotConfirmed(
            f"applied on the primary, which cannot confirm it: {reply}", required=confirm.replicas
        ) from reply
    local, replicas = reply if confirm.fsync else (1, reply)
    if replicas < confirm.replicas or local < 1:
        raise NotConfirmed(
            f"applied on the primary, but {replicas} of {confirm.replicas} replicas confirmed"
            f" within {confirm.seconds:g} s"
            + ("" if local else " and the primary has not written it to disk")
            + ": a failover now could undo it",
            confirmed=replicas,
            required=confirm.replicas,
        )
