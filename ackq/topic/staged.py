"""Publish committed rows in a topic."""

from __future__ import annotations

import re
from dataclasses import replace

from ackq import scripts
from ackq.core.call import call
from ackq.core.effects import Operation, Request
from ackq.errors import IndexTaken, PublishContention
from ackq.staging.keys import StagingKeys, tells_how
from ackq.topic.publish import trim
from ackq.topic.spec import TopicConfig, TopicSpec, pause

#: Rows that one call publishes at most.
CHUNK_ROWS = 1000
#: How the name of a list ends: with the retention, in ms and in messages, 0 for none.
_HOW = re.compile(rb":keep=(\d+),(\d+):\Z")


def how(config: TopicConfig) -> str:
    """Return what the names of staged lists tell: how long their rows are kept."""
    return f"keep={config.max_age_ms},{config.max_messages or 0}"


def move(
    spec: TopicSpec, staging: StagingKeys, name: bytes, attempts: int | None = None
) -> Operation[bool]:
    """Publish a bounded part of a committed list; return whether something is left.

    The messages are kept as long as their writer said, whatever ``spec`` says. A delay queue of
    the same name has its lists at the same place: those are left alone.

    Args:
        spec: of the topic.
        staging: its keys.
        name: of the list.
        attempts: as `TopicConfig.publish_attempts`, which is the default.

    Raises:
        PublishContention: other producers were always first; the rows stay committed.
        IndexTaken: a message lies beyond the newest index; the rows stay committed.
    """
    if tells_how(name):
        if not (found := _HOW.search(name)):
            return False
        age, most = map(int, found.groups())
        config = replace(spec.config, max_age=age / 1000 or None, max_messages=most or None)
        spec = replace(spec, config=config)
    keys, guess = spec.keys, spec.publishing
    attempts = attempts or spec.config.publish_attempts
    for attempt in range(attempts):
        after = guess.after
        named = (keys.newest, keys.first, keys.wake, staging.held, staging.heldrows, name,
                 *keys.messages(after, CHUNK_ROWS + guess.slack))  # fmt: skip
        request = Request(
            (len(named), *named, after, spec.config.max_age_ms),
            script=scripts.load("staging/topic"),
            resend=True,  # a row that was published has left the list
        )
        status, *rest = yield from call(spec, request)
        if status == b"ok":
            newest, left = rest
            guess.hit(0, newest)
            if not left and spec.config.max_messages:
                yield from trim(spec, spec.config.max_messages)
            return bool(left)
        if status == b"taken":
            raise IndexTaken(
                f"topic {spec.name!r}: there is a message beyond the newest index, so nextIndex"
                " was lost or set back. Nothing was overwritten, and the committed rows wait:"
                " set nextIndex to the index of the last message, or delete the messages"
            )
        guess.missed(rest[0])
        yield pause(attempt)
    raise PublishContention(
        f"topic {spec.name!r}: other producers were first {attempts} times in a row; the"
        " committed rows wait for a consumer or the next commit"
    )
