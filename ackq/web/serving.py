"""Serve the page with uvicorn."""

from __future__ import annotations

import socket

import uvicorn

from ackq.web.guard import Guard

#: Most requests at a time; more are refused with status 503.
MOST_REQUESTS = 200


def serve(page: Guard, listener: socket.socket, root_path: str = "") -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        page: the application.
        listener: a socket that listens.
        root_path: the prefix that a proxy in front removes from paths.
    """
    config = uvicorn.Config(
        page, root_path=root_path, log_level="warning", access_log=False, server_header=False,
        limit_concurrency=MOST_REQUESTS, ws="none",
        # Headers in which a proxy reports who asked are not needed, and anybody can send them.
        proxy_headers=False,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listener])
