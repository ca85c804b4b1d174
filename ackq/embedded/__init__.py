"""A real redis-server for who has none: a private child, or one that is shared.

``Server`` is a child process with a folder of its own, for tests and demos.
``shared_url`` is the server that everything on this account uses when no URL is
given: it outlives its callers, keeps its data, and is there once.
"""

from ackq.embedded.binaries import (
    Release,
    bundled_server,
    find_server,
    server_release,
    server_version,
)
from ackq.embedded.server import Server
from ackq.embedded.shared import data_folder, exclusive, shared_url, stop_shared

__all__ = [
    "Release",
    "Server",
    "bundled_server",
    "data_folder",
    "exclusive",
    "find_server",
    "server_release",
    "server_version",
    "shared_url",
    "stop_shared",
]
