"""On a cluster every key of a call is in the slot of its queue, and found there again."""

from pathlib import Path

import pytest

from tests.queue.scripts.busy import Call, damage, prepare
from tests.queue.scripts.calls import CALLS
from tests.queue.scripts.headers import read
from tests.queue.scripts.space import NOW, Space
from tests.servers import CLUSTERS, PLAIN, Fleet, Survey


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_script_runs_on_the_node_that_has_its_queue(
    call: Call, survey: Survey, fleet: Fleet, token: str, scripts_directory: Path
) -> None:
    cluster, plain = survey.first(CLUSTERS), survey.first(PLAIN)
    if cluster is None or plain is None:
        pytest.skip("the run has no cluster, or no plain server to compare with")
    now = NOW if "redis.call('TIME')" in read(scripts_directory, call.script) else None
    here, there = (
        Space(fleet.get(kind).control, f"{{{token}}}", scripts_directory, now)
        for kind in (cluster, plain)
    )
    for space in (here, there):
        prepare(space, call.script)
        damage(space)
        call.on(space)
    assert without_entries(here) == without_entries(there)


def without_entries(space: Space) -> object:
    """Return what is in each key; dead letters without the ids that the server gave them."""
    found = space.dump()
    if "GROUPS:LETTERS" in found:
        found["GROUPS:LETTERS"] = sorted(found["GROUPS:LETTERS"].values())
        found["GROUPS:STOPPED"] = found["GROUPS:STOPPED"].keys()
    return {**found, "DEAD": space.dead} if "DEAD" in found else found
