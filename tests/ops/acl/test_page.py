"""The page does with a role what the role is for, and says what it may not."""

import re

import pytest
import redis
from starlette.testclient import TestClient

from ackq import Queue
from ackq.ops import operation_log
from ackq.queue.registry import entries
from ackq.web import application
from ackq.web.requests import Ask
from ackq.worker.presence import heartbeat
from tests.ops.acl.conftest import AsRole
from tests.web.test_operating import ORIGIN, Operator, logged
from tests.web.test_pages import path_of, values_of


def pages(queue: Queue) -> list[str]:
    letter = queue.dead_letters(1)[0].entry
    name = queue.name
    return [
        *(
            path_of("queue", kind="list", name=name, state=state, bodies="1")
            for state in ("ready", "in_flight", "delayed")
        ),
        *(path_of("find", name=name, q=each.id) for each in queue.peek(1, "in_flight")),
        path_of("find", name=name, q="id=none"),
        path_of("dead", name=name),
        path_of("letter", name=name, entry=letter, body="1"),
        "/",
        "/workers",
        "/server",
    ]


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_a_role_of_the_page_sees_every_page(as_role: AsRole, stocked: Queue, role: str) -> None:
    page = application(as_role(role, stocked.name), [stocked.name])
    stocked.execute(heartbeat, "w", b'{"name": "mailer", "concurrency": 4}', 60.0, b"")
    with TestClient(page, base_url=ORIGIN) as http:
        for path in pages(stocked):
            reply = http.get(path)
            assert reply.status_code == 200, reply.text
            # The server's settings are kept from all roles.
            assert "may not" not in reply.text or path == "/server"
        assert "mailer" in http.get("/workers").text
        assert "Nothing has been done" in http.get("/operations").text
        assert values_of(http, "list", stocked.name)["dead"] == str(stocked.stats().dead)


def test_a_viewer_changes_nothing_even_through_a_page_that_may_operate(
    as_role: AsRole, stocked: Queue, admin: redis.Redis
) -> None:
    before = stocked.stats()
    page = application(as_role("viewer", stocked.name), [stocked.name], operate=True)
    with TestClient(page, base_url=ORIGIN) as http:
        operator = Operator(http, stocked.name)
        for ask in (Ask("pause", name=stocked.name), Ask("redrive", name=stocked.name)):
            assert operator.post(ask).status_code == 403
    assert (stocked.stats().dead, stocked.stats().paused) == (before.dead, False)
    assert admin.exists(operation_log.KEY) == 0


def test_an_operator_does_all_that_the_page_offers_for_a_list(
    as_role: AsRole, stocked: Queue, admin: redis.Redis
) -> None:
    name = stocked.name
    stocked.execute(heartbeat, "w", b"{}", 60.0, b"")
    page = application(as_role("operator", name), [name], operate=True)
    with TestClient(page, base_url=ORIGIN) as http:
        operator = Operator(http, name)
        first = stocked.dead_letters(1)[0].entry
        assert "The 1 dead letter that you chose" in operator.preview(
            Ask("redrive", name=name, entries=(first,))
        )
        stocked.push({"id": "even later"}, delay=900)
        stocked.push_many([{"id": "first"}, {"id": "not at all"}])
        stocked.schedules.put("report", {}, every=60)
        held = stocked.peek(1, "in_flight")[0].id
        later = [each.entry for each in stocked.peek(2, "delayed")]
        for ask in (
            Ask("pause", name=name),
            Ask("resume", name=name),
            Ask("run_now", name=name, key=later[0]),
            Ask("cancel", name=name, key=later[1]),
            Ask("redrive", name=name, entries=(first,)),
            Ask("drop", name=name, cause=""),
            Ask("run_now", name=name, id="first"),
            Ask("cancel", name=name, id="not at all"),
            Ask("cancel_running", name=name, id=held),
            Ask("pause_schedule", name=name, schedule="report"),
            Ask("resume_schedule", name=name, schedule="report"),
            Ask("remove_schedule", name=name, schedule="report"),
            Ask("quiet_worker", name=name, worker="w"),
        ):
            assert not re.search("failed|nothing|: 0", operator.do(ask))
        assert len(logged(http)) == 13
    assert [each.reason for each in stocked.dead_letters()] == ["canceled"] * 3
    assert [each.order for each in stocked.execute(entries)] == ["quiet"]
    admin.delete(operation_log.KEY)
