"""A mistake in an asyncio client is one in the blocking client, too."""

from __future__ import annotations

from .twins import twin_of

CLOSE = "ackq/queue/client_async.py: AsyncQueue.aclose"


def test_a_mutant_of_an_asyncio_client_is_planted_in_its_twin() -> None:
    twin = twin_of(CLOSE, "    async def aclose(self):\n        await None.aclose()", f"{CLOSE}+2")
    assert twin is not None
    assert twin.function == "ackq/queue/client.py: Queue.close"
    assert twin.code == "    def close(self):\n        None.close()"
    assert twin.place.startswith("ackq/queue/client.py: Queue.close+")
    assert twin.place.partition("+")[2].isdigit()


def test_what_is_written_by_hand_has_no_twin() -> None:
    assert twin_of("ackq/queue/take.py: pop_many", "def pop_many(): ...", "") is None
