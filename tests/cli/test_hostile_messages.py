"""Messages that carry orders for a terminal: it shows them, and obeys none."""

import json
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import redis

from ackq import Queue
from ackq.delay import DelayQueue
from ackq.rsmq import RSMQ
from ackq.sharded import ShardedQueue
from ackq.topic import Topic
from tests import forked
from tests.cli.terminal import CODE, shown, shown_of_all

#: Sets the clipboard (OSC 52), clears the screen, the same by C1, a forged line, reversed text.
ORDERS = "\x1b]52;c;cm0gLXJm\x07\x1b[2J\x9b31m\x9d0;t\x9c\r\nforged\u202e\u2066x"
#: What is left of it where a terminal, or JSON, shows it.
SHOWN = ("]52;c;cm0gLXJm", "forged")


@pytest.fixture
def commands(url: str, name: str, plain_client: redis.Redis) -> Iterator[list[list[str]]]:
    """Every command that prints text of messages, each with such a message."""
    hostile = {"id": ORDERS, "text": ORDERS}
    raw = ORDERS.encode() + b"\xff\x9b"
    with ExitStack() as stack:
        with Queue(plain_client, name, visibility_timeout=600) as queue:
            queue.push_many([{"id": "dead", "text": ORDERS}, {"id": "held", "text": ORDERS}])
            error = type(ORDERS, (Exception,), {})(ORDERS)
            queue.reject(queue.pop(), reason=ORDERS, error=error)  # type: ignore[arg-type]
            queue.pop()
            (letter,) = queue.dead_letters()
            queue.push_many([hostile, raw, raw])
        plain_client.hset(f"{name}:auditCONTEXT", raw, raw)
        with Queue(plain_client, f"{name}\x9b{ORDERS[-2:]}x") as strange:
            strange.push(hostile)
            strange.pop()
        delayed = stack.enter_context(DelayQueue(plain_client, f"{name}:delay"))
        delayed.push(ORDERS, "dead")
        delayed.reject(*delayed.take(1), reason=ORDERS)
        delayed.push(f"{ORDERS}2", raw)
        delayed.push(f"{ORDERS}3", raw, delay=600)
        rsmq = stack.enter_context(RSMQ(plain_client, f"{name}:rsmq"))
        rsmq.create_queue("orders")
        rsmq.send_messages("orders", [ORDERS, ORDERS])
        topic = stack.enter_context(Topic(plain_client, f"{name}:topic"))
        topic.subscribe("me", "oldest")
        topic.publish_many([raw, raw])
        with ShardedQueue(plain_client, f"{name}:sharded", 1) as sharded:
            sharded.push_many([hostile, raw])
        yield [
            [*each, "--url", url]
            for each in (
                ["peek", name],
                ["peek", name, "--state", "in_flight"],
                ["pop", name, "-n", "2"],
                ["dead", "list", name],
                ["dead", "show", name, letter.entry],
                ["dead", "list", name, "--causes"],
                ["audit", f"{name}:audit"],
                ["top", "--once"],
                ["push", name, json.dumps({"id": ORDERS})],
                ["stats", f"{name}\x9bx"],
                ["peek", f"{name}:delay"],
                ["peek", f"{name}:delay", "--state", "delayed"],
                ["delay", "take", f"{name}:delay"],
                ["dead", "list", f"{name}:delay"],
                ["rsmq", "receive", "orders", "--ns", f"{name}:rsmq"],
                ["topic", "consume", f"{name}:topic", "me"],
                ["peek", f"{name}:sharded"],
                ["sharded", "pop", f"{name}:sharded", "--shards", "1", "-n", "2"],
                ["sharded", "push", f"{name}:sharded", json.dumps({"id": ORDERS}), "--shards", "1"],
            )
        ]


def test_a_terminal_gets_no_control_character(commands: list[list[str]]) -> None:
    # A dumb terminal: ackq itself has no reason to send it any. Rich takes it for 80 columns wide
    # and cuts what does not fit, so look for the beginning of a body and for a queue's name.
    texts = shown_of_all(commands, 80, TERM="dumb", NO_COLOR="1")
    for command, text in zip(commands, texts, strict=True):
        assert "]52;c;" in text or r"\x9b" in text, command
        assert obeyed(text.replace("\r\n", "")) == set(), command


def test_json_is_no_order_either_and_says_the_same(commands: list[list[str]]) -> None:
    able = [[*command, "--json"] for command in commands if "push" not in command]
    text = "".join(shown_of_all(able, 80, TERM="dumb"))
    assert obeyed(text.replace("\r\n", "")) == set()
    values = [json.loads(line) for line in text.splitlines() if line[:1] == "{"]
    assert any(value.get("id") == ORDERS for value in values)


def obeyed(text: str) -> set[str]:
    """Return the characters that a terminal would obey, or show as nothing."""
    return {each for each in text if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp")}


def test_an_error_that_names_a_message_is_shown(url: str, name: str) -> None:
    with Queue.from_url(url, name) as queue:
        queue.push({"id": ORDERS})
        message = queue.pop()
        assert message is not None
        key = "".join(f"%{each:02x}" for each in message.key)
        text = shown("ack", name, key, str(message.receipt - 1), "--url", url, columns=80, code=3)
    assert text.startswith("ackq: ")
    assert all(each in text for each in SHOWN)
    assert obeyed(text.replace("\r\n", "")) == set()


def test_a_pipe_gets_bodies_byte_for_byte(url: str, name: str) -> None:
    bodies = [ORDERS.encode(), b"\xff\x00\x9b", b'{"id":"\xc2\x9b"}']
    with Queue.from_url(url, name) as queue:
        queue.push_many(bodies)
    done = forked.run(
        [sys.executable, "-c", CODE, "pop", name, "-n", "9", "--url", url],
        stdout=subprocess.PIPE,
        check=True,
        timeout=30,
    )
    assert done.stdout == b"".join(body + b"\n" for body in bodies)


def test_the_name_of_a_queue_is_shown_live(url: str, name: str) -> None:
    """Names in `top` come from any client that may write keys."""
    from io import StringIO

    from rich.console import Console

    from ackq.cli.top.detail import Detail, wrapped
    from ackq.cli.top.screen import Screen
    from ackq.cli.top.table import table
    from ackq.ops.dead_letters import Causes
    from ackq.ops.overview import Snapshot
    from ackq.ops.readings import Reading
    from ackq.ops.samples import UNKNOWN, Row, Sample
    from ackq.queue.messages import GroupCounts, GroupStats

    evil = "a\x9b31m\u202eb"
    counts = GroupCounts(1, 1, 0, 0, 0, 0.0)
    row = Row(
        Reading("topic", evil, 0, {evil: 1, "dead": 1}, lags={evil: 1}, groups=counts), UNKNOWN
    )
    groups = [GroupStats(evil, 1, 1, None)]
    sample = Sample(Snapshot((), (row.reading,), True, 0), [row], trouble=evil)
    file = StringIO()
    console = Console(file=file, width=80, no_color=True)
    console.print(table(sample, [row], Screen("name"), 80, 20))
    console.print(*wrapped(row, Detail(Causes(((evil, 1),), 1), None, evil, groups), 80))
    assert file.getvalue().count("a\\x9b31m\\u202eb") == 8
    assert "\x9b" not in file.getvalue()
