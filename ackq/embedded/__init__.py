"""A real redis-server for when you have none: a private child process, or a shared server.

`Server` is a child process with a folder of its own, for tests and demos. `shared_url` returns
the URL of the one server that all processes of this account use when no URL is given. It outlives
its callers and keeps its data.
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
