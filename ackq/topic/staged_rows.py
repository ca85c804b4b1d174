"""Publish committed rows to a topic."""

from __future__ import annotations

import re
from dataclasses import replace

from ackq import scripts
from ackq.core.call import call
from ackq.core.effects import Operation, Request
from ackq.errors import IndexTaken, PublishContention
from ackq.staging.keys import StagingKeys, has_settings
from ackq.topic.publish import trim
from ackq.topic.spec import TopicConfig, TopicSpec, pause

#: Most rows that one call publishes.
CHUNK_ROWS = 1000
#: Suffix of a list's name: the retention in ms and in messages, 0 for none.
_SETTINGS = re.compile(rb":keep=(\d+),(\d+):\Z")


def settings_suffix(config: TopicConfig) -> str:
    """Return the suffix of staged lists' names, which gives the retention of their rows."""
    return f"keep={config.max_age_ms},{config.max_messages or 0}"


def move(
    spec: TopicSpec, staging: StagingKeys, name: bytes, attempts: int | None = None
) -> Operation[bool]:
    """Publish a bounded part of a committed list; return whether rows are left.

    The retention is the writer's, not that of ``spec``. A delay queue of the same name has its
    lists under the same keys: those are left alone.

    Args:
        spec: the topic.
        staging: its staging keys.
        name: the list.
        attempts: as `TopicConfig.publish_attempts`, which is the default.

    Raises:
        PublishContention: other producers published first each time; the rows stay committed.
        IndexTaken: a message exists beyond the newest index; the rows stay committed.
    """
    if has_settings(name):
        if not (settings := _SETTINGS.search(name)):
            return False
        age, most = map(int, settings.groups())
        config = replace(spec.config, max_age=age / 1000 or None, max_messages=most or None)
        spec = replace(spec, config=config)
    keys, guess = spec.keys, spec.publishing
    attempts = attempts or spec.config.publish_attempts
    for attempt in range(attempts):
        after = guess.after
        named = (
            keys.newest,
            keys.first,
            keys.wake,
            staging.held,
            staging.heldrows,
            name,
            *keys.messages(after, CHUNK_ROWS + guess.slack),
        )
        request = Request(
            (len(named), *named, after, spec.config.max_age_ms),
            script=scripts.load("staging/topic"),
            resend=True,  # a published row is no longer in the list
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
        yield pause(spec, attempt)
    raise PublishContention(
        f"topic {spec.name!r}: other producers published first {attempts} times in a row; the"
        " committed rows wait for a consumer or the next commit"
    )
