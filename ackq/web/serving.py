"""The server of the page: uvicorn, with the settings that the page needs."""

from __future__ import annotations

import uvicorn

from ackq.web.guard import Guard

#: Most requests at a time; more are refused with status 503.
MAX_REQUESTS = 200


def server_of(page: Guard, root_path: str = "") -> uvicorn.Server:
    """Return a server for the page, to be run with a socket that listens.

    Args:
        page: the application.
        root_path: the prefix that a proxy in front removes from paths.
    """
    config = uvicorn.Config(
        page,
        root_path=root_path,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_REQUESTS,
        ws="none",
        # Headers in which a proxy reports who asked are not needed, and anybody can send them.
        proxy_headers=False,
    )
    return uvicorn.Server(config)
