"""The files that one call of the client passes, in order: a hop that serves other calls costs all.

If one changes on purpose, change it here, and "The path of one pop" in docs/architecture.md.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ackq
from tests.servers import Target

ROOT = Path(ackq.__file__).parent
#: Most files that a call passes.
MOST = 9

CLIENT = ["queue/client.py", "core/client.py", "core/io/driver.py"]
WIRE = ["core/io/connections.py", "core/effects.py"]
PUSH = [*CLIENT, "queue/push.py", "core/encode.py", "core/ids.py", "core/call.py", *WIRE]
POP = [*CLIENT, "queue/take.py", "core/io/outside.py", *WIRE, "queue/messages.py"]
POP_THAT_ACKS = [
    *CLIENT,
    "queue/take.py",
    "queue/messages.py",
    "core/io/outside.py",
    "core/fencing.py",
    *WIRE,
]
ACK = [
    *CLIENT,
    "queue/settle.py",
    "queue/messages.py",
    "core/fencing.py",
    "core/chunks.py",
    *WIRE,
]


def test_the_files_that_a_call_passes(target: Target, name: str) -> None:
    client = target.make_client()
    messages: list[Any] = []
    with ackq.Queue(client, name) as queue:
        queue.push({"id": "first"})  # which also looks at the recorded end
        queue.ack(*queue.pop_many(1))  # the server knows the scripts now
        assert _passed(lambda: queue.push({"id": "a"})) == PUSH
        assert _passed(lambda: messages.append(queue.pop())) == POP
        queue.push_many([{"id": "b"}, {"id": "c"}])
        assert _passed(lambda: queue.pop(ack=messages[0])) == POP_THAT_ACKS
        messages.append(queue.pop())
        assert _passed(lambda: queue.ack(messages[1])) == ACK
    client.close()
    assert max(map(len, (PUSH, POP, POP_THAT_ACKS, ACK))) <= MOST


def test_the_docs_name_the_files_that_a_pop_passes() -> None:
    page = (ROOT.parent / "docs" / "architecture.md").read_text()
    (section,) = re.findall(r"(?ms)^## The path of one pop$(.*?)^## ", page)
    steps = section.partition("Only some pops go further")[0]
    named = re.findall(r"`ackq/([\w/]+\.py)`", steps)
    assert sorted(set(named)) == sorted(POP_THAT_ACKS)


def _passed(call: Callable[[], Any]) -> list[str]:
    """Return the files of ackq whose functions are called, in the order of their first calls."""
    found: dict[str, None] = {}

    def look(frame: Any, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            found[path.relative_to(ROOT).as_posix()] = None

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(before)
    return list(found)
