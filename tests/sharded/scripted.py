"""The scripts of a sharded queue, called as they are or with a planted mistake."""

from pathlib import Path
from typing import Any

from tests.queue.scripts.headers import parse, read


class Scripted:
    """The keys of sharded queue ``name``, and the scripts of ``directory`` called on them."""

    def __init__(self, client: Any, name: str, directory: Path) -> None:
        self.client = client
        self.name = name
        self._directory = directory

    @property
    def record(self) -> str:
        return f"{{{self.name}}}:shards"

    def call(self, script: str, *args: str | float, grouped: bool = False) -> Any:
        """Call a script with the keys that its header names. The first shard is ``{name}0``.

        If it is ``grouped``, these are also the keys that a queue with groups has.
        """
        text = read(self._directory, f"sharded/{script}")
        tagged = {"{name}": f"{{{self.name}}}", "{shard}": f"{{{self.name}}}0"}
        keys = []
        found = parse(text)
        for slot in (*found.keys, *(found.grouped if grouped else ())):
            key = slot.name
            for pattern, tag in tagged.items():
                key = key.replace(pattern, tag)
            keys.append(key)
        return self.client.eval(text, len(keys), *keys, *args)
