"""Who gets an answer, and what every answer carries."""

import base64
from pathlib import Path
from unittest.mock import AsyncMock

import click.testing
import pytest
import redis
from starlette.testclient import TestClient

from ackq.cli import main
from ackq.errors import ConfigurationError
from ackq.web import application
from ackq.web.access import endpoint_of, listen, read_users
from ackq.web.guard import POLICY

PASSWORD = "correct horse battery"


def basic(name: str, password: str) -> dict[str, str]:
    encoded = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"authorization": f"Basic {encoded}"}


@pytest.mark.parametrize("path", ["/", "/nothing", "/static/ackq.js", "/static/", "/live"])
def test_every_answer_carries_the_policy(http: TestClient, path: str) -> None:
    headers = http.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


def test_a_name_that_is_not_the_pages_gets_nothing(plain_client: redis.Redis) -> None:
    """An attacker's name may point to this machine; an address cannot be made to point to it."""
    http = TestClient(application(plain_client, hosts=["queues.example.com"]))
    own = "localhost LOCALHOST:80 127.0.0.1:8383 [::1]:1 10.1.2.3 queues.example.com"
    for host in (*own.split(), "Queues.Example.com.:443"):
        assert http.get("/live", headers={"host": host}).status_code == 200, host
    evil = "evil.test evil.test:8383 localhost.evil.test 127.0.0.1.evil.test localhost@evil.test"
    for host in (
        *evil.split(),
        *("evil.test@localhost", "queues.example.com.evil.test", "2130706433", "[", ""),
    ):
        reply = http.get("/live", headers={"host": host})
        assert reply.status_code == 421, host
        assert "values" not in reply.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_but_reading_is_possible(http: TestClient, method: str) -> None:
    for origin in ("http://localhost", "http://evil.test"):
        reply = http.request(method, "/", headers={"origin": origin})
        assert reply.status_code == 405
        assert "access-control-allow-origin" not in reply.headers


def test_a_page_with_users_asks_for_a_password(
    plain_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyio.sleep", slept := AsyncMock())
    page = application(plain_client, users={"ada": PASSWORD, "bob": "x" * 12})
    http = TestClient(page, base_url="http://localhost")
    for path in ("/", "/live", "/static/ackq.js", "/nothing"):
        reply = http.get(path)
        assert reply.status_code == 401, path
        assert reply.headers["www-authenticate"].startswith("Basic ")
    wrong = (
        {"authorization": "Basic"},
        {"authorization": "Basic !!"},
        basic("", ""),
        {"authorization": f"Bearer {PASSWORD}"},
        basic("ada", "x" * 12),
        basic("ada", PASSWORD + " "),
        basic("Ada", PASSWORD),
        basic("ada", ""),
    )
    for headers in wrong:
        assert http.get("/live", headers=headers).status_code == 401, headers
    assert [each.args for each in slept.await_args_list] == [(0,)] * 4 + [(0.5,)] * len(wrong)
    assert http.get("/live", headers=basic("ada", PASSWORD)).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_it_does_not_listen_for_strangers_without_passwords(host: str) -> None:
    with pytest.raises(ConfigurationError, match="needs passwords there: pass --users"):
        listen(host, 0, None)
    listen(host, 0, {"ada": PASSWORD}).close()


def test_the_command_refuses_an_open_page(url: str) -> None:
    for args in (
        ["--listen", "0.0.0.0:0"],
        ["--listen", "nonsense"],
        ["--users", "/nonexistent/users"],
    ):
        result = click.testing.CliRunner().invoke(main, ["web", "--url", url, *args])
        assert result.exit_code == 3, result.output
        assert "Traceback" not in result.output


def test_an_address_in_use_is_named(free_port: int) -> None:
    with (
        listen("127.0.0.1", free_port, None),
        pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{free_port}"),
    ):
        listen("127.0.0.1", free_port, None)


def test_endpoints_and_users_are_checked(tmp_path: Path) -> None:
    assert endpoint_of("127.0.0.1:8383") == ("127.0.0.1", 8383)
    assert endpoint_of("[::1]:0") == ("::1", 0)
    assert endpoint_of("8383") == ("127.0.0.1", 8383)
    for text in ("", "host", "host:", "host:65536", "host:-1", "host:1x"):
        with pytest.raises(ConfigurationError):
            endpoint_of(text)
    path = tmp_path / "users"
    path.write_text(f"# who may look\n\nada:{PASSWORD}\nbob:with:colons:in:it\n")
    assert read_users(path) == {"ada": PASSWORD, "bob": "with:colons:in:it"}
    for text in ("", "# none\n", "ada\n", "ada:short\n", f":{PASSWORD}\n"):
        path.write_text(text)
        with pytest.raises(ConfigurationError):
            read_users(path)
