"""A mistake in an asyncio client is one in the blocking client, too."""

from .places import ROOT, statements
from .twins import twin_of

CLOSE = "ackq/core/client_async.py: Client.aclose"


def test_a_mutant_of_an_asyncio_client_is_planted_in_its_twin() -> None:
    first, *_ = statements(ROOT / "ackq/core/client_async.py")["Client.aclose"]
    code = "    async def aclose(self):\n        await None.aclose()"
    twin = twin_of(CLOSE, code, f"{CLOSE}+{first}")
    assert twin is not None
    assert twin.function == "ackq/core/client.py: Client.close"
    assert twin.code == "    def close(self):\n        None.close()"
    assert twin.place.startswith("ackq/core/client.py: Client.close+")
    assert twin.place.partition("+")[2].isdigit()


def test_what_is_written_by_hand_has_no_twin() -> None:
    assert twin_of("ackq/queue/take.py: pop_many", "def pop_many(): ...", "") is None
