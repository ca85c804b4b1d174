"""The API under the page: every answer is as its OpenAPI document says."""

import json
import secrets
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import redis
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from ackq import Groups, Queue
from ackq.core.io.driver import Driver
from ackq.core.io.routes import route_of
from ackq.ops.chronicle.causes import count_dead
from ackq.web import application
from ackq.web.api import PREFIX
from tests.servers import private_server
from tests.web.conftest import HOSTILE, Stock
from tests.web.test_past import keep

DOCUMENT = f"{PREFIX}/openapi.json"
PAGE = Path(__file__).parents[2] / "docs" / "web.md"


def ask(http: TestClient, path: str, status: int = 200, **query: str) -> Any:
    """Return an answer, which must be as the document says."""
    described = http.get(DOCUMENT).json()
    reply = http.get(PREFIX + path, params=query)
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/json"
    answer = described["paths"][path]["get"]["responses"][str(status)]
    schema = answer["content"]["application/json"]["schema"]
    found = json.loads(reply.text)
    jsonschema.Draft202012Validator({**schema, "components": described["components"]}).validate(
        found
    )
    return found


def test_every_answer_is_as_the_document_says(
    http: TestClient, plain_client: redis.Redis, stock: Stock
) -> None:
    keep(plain_client, stock.jobs, 5)
    queues = ask(http, "/queues")
    assert {each["name"] for each in queues["queues"]} == {
        stock.jobs,
        stock.reminders,
        stock.prices,
        stock.legacy,
    }
    assert queues["states"]["dead"] == 4
    assert ask(http, "/queues", kind="delay")["total"] == 1
    for each in queues["queues"]:
        queue = {"kind": each["kind"], "name": each["name"]}
        assert ask(http, "/queue", **queue)["backlog"] == each["backlog"]
        history = ask(http, "/history", **queue, hours="24")
        assert len(history["minutes"]) >= (each["kind"] == "list") * 5
    driver = Driver(route_of(plain_client, b""))
    driver.run(count_dead("list", stock.jobs, secrets.token_hex(4)))
    driver.route.close()
    failures = ask(http, "/failures", kind="list", name=stock.jobs)
    assert sum(each["dead"] for each in failures["causes"]) == 2
    assert ask(http, "/failures")["total"] >= 2
    dead = ask(http, "/dead", name=stock.jobs)
    assert (dead["total"], [each["size"] > 100 for each in dead["letters"]]) == (2, [True] * 2)
    assert "secret" not in json.dumps(dead)
    chosen = ask(http, "/dead", name=stock.jobs, cause=HOSTILE, task="")
    assert [each["cause"] for each in chosen["letters"]] == [HOSTILE]
    assert ask(http, "/dead", name=stock.jobs, task="none")["letters"] == []
    found = ask(http, "/find", name=stock.jobs, id=f"later{HOSTILE}")
    assert [(each["state"], each["queue"]) for each in found["messages"]] == [
        ("delayed", stock.jobs)
    ]
    assert found["messages"][0]["due_in_seconds"] > 0
    found = ask(http, "/find", name=stock.jobs, where=f"secret={HOSTILE}", within="10")
    assert len(found["messages"]) == 6
    assert ask(http, "/find", name=stock.jobs, id="none") == {"looked": 7, "messages": []}
    (schedule,) = ask(http, "/schedules", name=stock.jobs)["schedules"]
    assert (schedule["name"], schedule["every_seconds"]) == (HOSTILE, 3600)
    (worker,) = ask(http, "/workers")["workers"]
    assert worker["queues"] == [stock.jobs]
    assert ask(http, "/operations")["known"]


def test_groups_are_listed(http: TestClient, plain_client: redis.Redis, name: str) -> None:
    with Queue(plain_client, name, groups=Groups("of", in_flight=1)) as queue:
        queue.push_many({"id": f"{of}{n}", "of": of} for n in range(2) for of in (HOSTILE, "b"))
        assert [len(queue.pop_many(1)) for _ in range(3)] == [1, 1, 0]
        answer = ask(http, "/groups", name=name, by="oldest")
        assert [each["name"] for each in answer["groups"]] == [HOSTILE, "b"]
        (group,) = ask(http, "/groups", name=name, q="b")["groups"]
        assert 0 < group.pop("oldest_seconds") < 60
        assert group == {"name": "b", "waiting": 1, "in_flight": 1} | {
            "ready_seconds": None,
            "stopped_by": [],
        }
        queue.purge()
    assert ask(http, "/groups", name=f"{name}2") == {"known": False, "groups": []}


@pytest.mark.parametrize(
    ("path", "status", "query"),
    [
        ("/queue", 400, {}),
        ("/queue", 400, {"kind": HOSTILE, "name": "x"}),
        ("/queue", 404, {"name": "none"}),
        ("/queues", 400, {"page": "0"}),
        ("/history", 400, {"name": "x", "hours": "25"}),
        ("/history", 400, {"name": "x", "hours": HOSTILE}),
        ("/dead", 400, {"name": "x", "before": HOSTILE}),
        ("/dead", 400, {"kind": "topic", "name": "x"}),
        ("/failures", 400, {"kind": "odd", "name": "x"}),
        ("/find", 400, {"name": "x"}),
        ("/find", 400, {"name": "x", "where": "no condition"}),
        ("/find", 400, {"name": "x", "id": ""}),
        ("/find", 400, {"name": "x", "id": "a", "within": "0"}),
        ("/find", 400, {"kind": "topic", "name": "x", "id": "a"}),
        ("/schedules", 400, {}),
        ("/groups", 400, {}),
    ],
)
def test_an_error_is_json_too(
    http: TestClient, path: str, status: int, query: dict[str, str]
) -> None:
    assert ask(http, path, status, **query)["error"]
    assert http.get(f"{PREFIX}/nothing").json()["error"]
    assert http.post(f"{PREFIX}/queues").status_code == 405


def test_during_an_outage_the_last_figures_say_so_and_the_rest_is_an_error(
    tmp_path: Path, eager: None
) -> None:
    with (
        private_server(tmp_path) as server,
        redis.Redis.from_url(server.url) as client,
        TestClient(application(client), base_url="http://localhost") as http,
    ):
        with Queue(client, "jobs") as queue:
            queue.push_many([{"id": "a"}, {"id": "b"}])
            queue.pop()
        assert ask(http, "/queues")["outdated"] is False
        server.kill()
        found = ask(http, "/queues")
        assert (found["outdated"], found["queues"][0]["states"]["ready"]) == (True, 1)
        assert found["trouble"]
        (outage,) = ask(http, "/attention")["troubles"]
        assert outage["kind"] == "unreadable"
        paths = set(http.get(DOCUMENT).json()["paths"]) - {"/queues", "/attention"}
        for path in paths:
            assert ask(http, path, 503, kind="list", name="jobs", id="a")["error"]


def test_it_is_found_under_the_prefix_of_the_page(plain_client: redis.Redis) -> None:
    app = Starlette(routes=[Mount("/queues", application(plain_client))])
    with TestClient(app, base_url="http://localhost") as http:
        found = http.get(f"/queues{DOCUMENT}").json()
        assert found["servers"] == [{"url": f"/queues{PREFIX}"}]
        assert http.get(f"/queues{PREFIX}/queue").json()["error"].startswith("name the queue")


def test_the_guide_names_every_address(http: TestClient) -> None:
    text = PAGE.read_text()
    for path, methods in http.get(DOCUMENT).json()["paths"].items():
        assert f"`{path[1:]}`" in text, path
        for parameter in methods["get"]["parameters"]:
            assert f"`{parameter['name']}`" in text, parameter["name"]
