"""Messages that the model pushes, each with the lease key that it asks for."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

#: Longest body that the queues under test take.
MAX_BODY = 700
#: Few, so that equal ids meet.
IDS = ("a", "b", "c", 1, -2)

#: Raw bodies, as any producer may push them, and their keys; None: one is derived.
RAW: dict[bytes, bytes | None] = {
    b"": None,
    b"not json": None,
    b"\xff\x00\xfe": None,
    b"[]": None,
    b'{"n":[]}': None,
    b'{"id":null}': None,
    b'{"id":true}': None,
    b'{"id":""}': None,
    b'{"id":"\\u0000a"}': None,
    b'{"id":9007199254740992}': None,
    b'{"id":"%s"}' % (b"x" * 513): None,
    b'{"id":"a"}': b"a",
    b'{"id":"a","v":1}': b"a",
    b'{"v":{"id":"c"},"id":"a"}': b"a",
    b'{ "id" : "b" }': b"b",
    b'{"id": 1}': b"1",
    b'{"id":1.0}': b"1",
    b'{"id":"\\u0062"}': b"b",
    b"x" * (MAX_BODY + 1): None,
    b'{"id":"a","x":"%s"}' % (b"x" * MAX_BODY): b"a",
}

raw_bodies = st.sampled_from(sorted(RAW))
fitting_bodies = st.sampled_from(sorted(body for body in RAW if len(body) <= MAX_BODY))
#: The id of all unique pushes, and of no others: a push that is not unique is compared with none.
UNIQUE = "u"
unique_messages = st.fixed_dictionaries({"id": st.just(UNIQUE), "v": st.integers(0, 2)})
objects: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"v": st.integers(0, 2)}, optional={"id": st.sampled_from(IDS)}
)
messages = st.one_of(objects, fitting_bodies)


def encoded(message: dict[str, Any] | bytes, returned: str) -> tuple[bytes, bytes | None]:
    """Return the body that a push of ``message`` must store, and its key.

    ``returned`` is the id that the push returned, which it drew if the message has none.
    """
    if isinstance(message, bytes):
        return message, RAW[message]
    with_id = {"id": returned, **message}
    with_id = {"id": with_id.pop("id"), **with_id}
    return json.dumps(with_id, separators=(",", ":")).encode(), str(with_id["id"]).encode()
