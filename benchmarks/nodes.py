"""A Redis Cluster on this machine, for one run."""

import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import redis

from ackq import embedded
from benchmarks.servers import OPTIONS, free_port

SLOTS = 16_384
#: A node also listens on its own port plus this.
BUS = 10_000
#: Longest time, in seconds, until all nodes know each other.
TIMEOUT = 30.0
#: Settings of a node.
CLUSTER: dict[str, str | list[str]] = {**OPTIONS, "cluster-enabled": "yes"}


@contextmanager
def cluster(nodes: int) -> Iterator[list[str]]:
    """Yield the URLs of ``nodes`` primaries that share the slots evenly; no persistence."""
    on_path = shutil.which("redis-server")
    executable = Path(on_path) if on_path else embedded.bundled_server()
    with tempfile.TemporaryDirectory(prefix="ackq-bench-") as folder, ExitStack() as stack:
        servers = [
            stack.enter_context(
                embedded.Server(Path(folder) / str(number), executable, node_port(), CLUSTER)
            )
            for number in range(nodes)
        ]
        _join([server.url for server in servers])
        yield [server.url for server in servers]


def node_port() -> int:
    """Return a free port of the loopback interface whose bus port is free as well."""
    while True:
        port = free_port()
        with suppress(OSError, OverflowError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port + BUS))
            return port


def _join(urls: Sequence[str]) -> None:
    with ExitStack() as stack:
        nodes = [stack.enter_context(redis.Redis.from_url(url)) for url in urls]
        for number, node in enumerate(nodes):
            first, end = (SLOTS * at // len(nodes) for at in (number, number + 1))
            node.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
            node.execute_command("CLUSTER ADDSLOTS", *range(first, end))
            for other in urls[:number]:
                host, port = other.partition("//")[2].partition("/")[0].split(":")
                node.execute_command("CLUSTER MEET", host, port)
        deadline = time.monotonic() + TIMEOUT
        while not all(_is_whole(node, len(nodes)) for node in nodes):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the cluster was not whole within {TIMEOUT:g} s")
            time.sleep(0.05)


def _is_whole(node: redis.Redis, nodes: int) -> bool:
    info = node.execute_command("CLUSTER INFO")
    return bool(info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == nodes)
