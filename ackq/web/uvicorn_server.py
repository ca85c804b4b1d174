"""The server of the page: uvicorn, with the settings that the page needs."""

from __future__ import annotations

import uvicorn

from ackq.web.connections import Connection
from ackq.web.guard import Guard


def server_of(page: Guard, root_path: str = "") -> uvicorn.Server:
    """Return a server for the page, to be run with a socket that listens.

    Args:
        page: the application.
        root_path: the prefix that a proxy in front removes from paths.
    """
    config = uvicorn.Config(
        page,
        root_path=root_path,
        # Warnings tell only of clients that send something else than HTTP.
        log_level="error",
        access_log=False,
        server_header=False,
        http=Connection,
        ws="none",
        # Headers in which a proxy reports who asked are not needed, and anybody can send them.
        proxy_headers=False,
    )
    return uvicorn.Server(config)
