"""The scripts of a consumer group, called as they are or with a planted mistake."""

from pathlib import Path
from typing import Any

from tests.queue.scripts.headers import read

SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND
SESSION = 10 * SECOND


class Group:
    """A group whose server shows any time that a test likes."""

    def __init__(self, client: Any, name: str, directory: Path) -> None:
        self.client = client
        self.members, self.group, self.owners = self.keys = tuple(
            f"{name}:{part}" for part in ("members", "group", "owners")
        )
        self._directory = directory

    def call(self, script: str, *args: Any, now: int = NOW) -> Any:
        """Call a script at that time, in µs."""
        text = read(self._directory, f"members/{script}")
        clock = f"{{'{now // SECOND}', '{now % SECOND}'}}"
        return self.client.eval(text.replace("redis.call('TIME')", clock), 3, *self.keys, *args)

    def join(self, session: str, known: int = 0, *, now: int = NOW, shares: int = 4) -> Any:
        """Let ``session`` join or stay at that time; return the reply without its "ok"."""
        ok, *reply = self.call("heartbeat", session, SESSION, shares, 1, known, now=now)
        assert ok == b"ok"
        return reply

    def sessions(self) -> dict[bytes, float]:
        """Return the sessions and their ends."""
        return dict(self.client.zrange(self.members, 0, -1, withscores=True))
