"""Publish committed rows in a topic."""

from __future__ import annotations

from redis.exceptions import ResponseError

from ackq import scripts
from ackq.errors import IndexTaken, PublishContention
from ackq.protocol.staging_keys import StagingKeys
from ackq.protocol.steps import Request, Steps
from ackq.protocol.topic_publish import trim
from ackq.protocol.topic_spec import TopicSpec, pause

#: Rows that one call publishes at most.
CHUNK_ROWS = 1000


def move(spec: TopicSpec, staging: StagingKeys, name: bytes) -> Steps[bool]:
    """Publish a bounded part of a committed list; return whether something is left.

    Raises:
        PublishContention: other producers were always first; the rows stay committed.
        IndexTaken: a message lies beyond the newest index; the rows stay committed.
    """
    keys, guess = spec.keys, spec.publishing
    for attempt in range(spec.config.publish_attempts):
        after = guess.after
        named = (keys.newest, keys.first, keys.wake, staging.held, staging.heldrows, name,
                 *keys.messages(after, CHUNK_ROWS + guess.slack))  # fmt: skip
        request = Request(
            (len(named), *named, after, spec.config.max_age_ms),
            script=scripts.load("staging/topic"),
            resend=True,  # a row that was published has left the list
        )
        try:
            status, *rest = yield request
        except ResponseError as error:
            yield from spec.explain(error)
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
        f"topic {spec.name!r}: other producers were first {spec.config.publish_attempts} times"
        " in a row; the committed rows wait for the next commit"
    )
