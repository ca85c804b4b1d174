"""Cluster clients that ask each server once for its commands.

Every new `RedisCluster` reads and parses the reply to COMMAND, 7 ms of processor time. The tests
create thousands of such clients, and the commands of a server do not change.
"""

from typing import Any

from redis._parsers import AsyncCommandsParser, CommandsParser

_known: dict[str, dict[str, Any]] = {}


def remember() -> None:
    """Keep the commands of each server, for all cluster clients of this process."""
    ask: Any = CommandsParser.initialize
    ask_async: Any = AsyncCommandsParser.initialize

    def initialize(self: Any, client: Any) -> None:
        # Ask again for a command that is not known, and whether a user may ask.
        if self.commands or client.get_connection_kwargs().get("username"):
            ask(self, client)
            return
        server = client.get_default_node().name
        if server not in _known:
            ask(self, client)
            _known[server] = self.commands
        self.commands = _known[server]

    async def initialize_async(self: Any, node: Any = None) -> None:
        if self.commands or node is None or node.connection_kwargs.get("username"):
            await ask_async(self, node)
            return
        self.node = node
        if node.name not in _known:
            await ask_async(self, node)
            _known[node.name] = self.commands
        self.commands = _known[node.name]

    CommandsParser.initialize = initialize  # type: ignore[method-assign]
    AsyncCommandsParser.initialize = initialize_async  # type: ignore[method-assign]
