"""The roles of a queue that is popped from the left."""

import pytest
import redis

from ackq import Queue
from ackq.queue.claims_client import Claims
from ackq.queue.staging_client import Staging
from ackq.staging.keys import Staged
from tests.ops.acl.conftest import AsRole
from tests.ops.acl.test_roles import FOR, OPERATIONS, outcome


@pytest.mark.parametrize("role", [role for role, operations in FOR.items() if operations])
def test_a_role_can_do_what_it_is_for(
    admin: redis.Redis, as_role: AsRole, name: str, role: str
) -> None:
    with (
        Queue(as_role(role, name, pop_from="left"), name, pop_from="left") as queue,
        Queue(admin, name, pop_from="left") as owner,
    ):
        for what in sorted(FOR[role]):
            owner.purge(dead=True)
            if role not in ("scheduler", "consumer", "worker", "operator"):
                admin.hset(
                    f"{name}RECORD", mapping={"format": 2, "kind": "left"}
                )  # somebody else records the end
            owner.push_many([{"id": "a"}, {"id": "b"}])
            assert outcome(OPERATIONS[what], queue) == "allowed", what


def test_claims_and_commits_have_roles_too(admin: redis.Redis, as_role: AsRole, name: str) -> None:
    writer, claimer = (as_role(role, name, pop_from="left") for role in ("writer", "claimer"))
    with Staging(writer, name, "w", pop_from="left") as staging:
        staged = Staged("t")
        staging.stage(1, staged, [b"1", b"2"])
        assert staging.commit(1, [staged]) == 2
    with Claims(claimer, name, "g", pop_from="left") as claims:
        claims.begin()
        claim = claims.claim(0, messages=10)
        assert claim is not None
        assert claims.read(claim.batch, 0, 2) == [b"1", b"2"]
        claims.beat()
        claims.release()
    with Queue(admin, name, pop_from="left") as owner:
        assert [message.body for message in owner.pop_many(5)] == [b"1", b"2"]
