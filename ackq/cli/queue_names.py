"""Completes the names of queues, for the shell's Tab key."""

from __future__ import annotations

import click

from ackq.core.client import client_of
from ackq.embedded.files import answers, socket_path, unix_url
from ackq.embedded.shared import data_folder
from ackq.errors import EXPECTED
from ackq.ops.overview import Overview
from ackq.ops.plain_lists import SCANNED, plain_lists

#: Keys that are examined at most on each server: a shell waits for the answer.
EXAMINED = 20_000


def complete_queue(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Return the queues and lists whose names begin so, or none if there is no server.

    This never starts a server.
    """
    url = ctx.params.get("url") or _running()
    if url is None:
        return []
    steps = EXAMINED // SCANNED
    try:
        with client_of(url) as client, Overview(client, steps=steps, first_steps=steps) as overview:
            names = {each.name for each in overview.read().queues}
            names |= plain_lists(client, names, steps).keys()
    except EXPECTED:
        return []
    return sorted(name for name in names if name.startswith(begun))


def _running() -> str | None:
    """Return the URL of the server that commands without --url use, if it runs."""
    address = socket_path(data_folder())
    return unix_url(address) if answers(address) else None
