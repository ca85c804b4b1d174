"""What ackq makes of a client's settings, of URLs and of the addresses of nodes, with no server."""

from types import SimpleNamespace
from typing import Any

import pytest
import redis
from redis.exceptions import TimeoutError

from ackq.core.hosts import KnownHosts, is_loopback
from ackq.core.io.nodes import nodes_of, text_of
from ackq.core.io.settings import (
    KEEPALIVE,
    address_of,
    bad_url,
    block_limit_for,
    check_confirm_fits,
    check_database,
    check_url,
    connection_settings,
    nodes_in,
    owner_of,
    redirected,
    url_of,
    with_hint,
    with_timeouts,
    wrong_client,
)
from ackq.errors import ConfigurationError

#: A reply to CLUSTER SLOTS: the third range's primary does not know its own name.
SLOTS: Any = [
    [0, 99, [b"one", 7001, b"id"], [b"two", 7002, b"id"]],
    [100, 100, [b"two", 7002, b"id", []], [b"one", 7001, b"id"]],
    [200, 300, [None, 7003, b"id"], [b"four", 7004, b"id"]],
]


def test_every_wait_has_a_limit_whatever_the_client_sets() -> None:
    usual = {"socket_timeout": 5.0, "socket_connect_timeout": 5.0, "health_check_interval": 30}
    alive = {"socket_keepalive": True, "socket_keepalive_options": KEEPALIVE}
    assert KEEPALIVE
    assert with_timeouts({}) == usual | alive
    assert with_timeouts({"path": "/s"}) == usual | {"path": "/s"}
    unset = dict.fromkeys((*usual, "socket_keepalive"))
    assert with_timeouts(unset) == usual | alive
    assert with_timeouts({"health_check_interval": 0})["health_check_interval"] == 30
    assert with_timeouts({"socket_timeout": 0.5})["socket_connect_timeout"] == 0.5
    assert with_timeouts({"socket_timeout": 60.0})["socket_connect_timeout"] == 5.0
    given = {
        "socket_timeout": 7.0,
        "socket_connect_timeout": 9.0,
        "health_check_interval": 1,
        "socket_keepalive": False,
        "db": 3,
    }
    assert with_timeouts(given) == given


@pytest.mark.parametrize(
    "url",
    [
        "redis://:p%40s%2Fs@127.0.0.1:6380?db=3",
        "redis://the%20user:@[::1]:6379",
        "rediss://a:b@host:6379?ssl_cert_reqs=none&ssl_ca_certs=%2Fca.pem",
        "unix://a:b@/tmp/socket?db=1",
    ],
)
def test_a_server_has_a_url_that_leads_to_it(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        pool = client.connection_pool
        written = url_of(pool)
        assert written is not None
        with redis.Redis.from_url(written) as other:
            assert other.connection_pool.connection_class is pool.connection_class
            one, two = (each.connection_kwargs for each in (pool, other.connection_pool))
            assert connection_settings(one) == connection_settings(two)


def test_a_server_that_no_url_names_has_none() -> None:
    sentinel = redis.sentinel.Sentinel([("127.0.0.1", 1)]).master_for("mine")
    provider = redis.UsernamePasswordCredentialProvider("a", "b")
    drawing = redis.Redis(credential_provider=provider)
    data: Any = b"x"
    special = redis.Redis(ssl=True, ssl_ca_data=data)
    for client in (sentinel, drawing, special):
        assert url_of(client.connection_pool) is None
        client.close()


def test_what_changes_the_form_of_replies_is_not_copied() -> None:
    client = {"decode_responses": True, "event_dispatcher": object(), "db": 3, "retry": "policy"}
    copied = connection_settings(client)
    assert (copied["db"], copied["retry"], copied["socket_timeout"]) == (3, "policy", 5.0)
    assert not copied.keys() & {"decode_responses", "event_dispatcher"}


def test_the_owner_of_a_slot_is_the_first_node_of_its_range() -> None:
    owners = {
        0: ("one", 7001),
        99: ("one", 7001),
        100: ("two", 7002),
        101: None,
        199: None,
        200: ("", 7003),
        300: ("", 7003),
        301: None,
    }
    assert {slot: owner_of(slot, SLOTS) for slot in owners} == owners


def test_all_nodes_that_know_their_names_are_known_once() -> None:
    assert nodes_in(SLOTS) == [("one", 7001), ("two", 7002), ("four", 7004)]


def test_a_client_for_each_node_of_the_cluster() -> None:
    pool = redis.ConnectionPool(host="here", port=7000, password="x")

    def addresses(reply: Any, **settings: bool) -> list[tuple[str, int]]:
        asked: Any = SimpleNamespace(execute_command=lambda _: reply, connection_pool=pool)
        found = [each for each in nodes_of(asked, **settings) if each is not asked]
        assert all(each.connection_pool.connection_kwargs["password"] == "x" for each in found)
        kwargs = [each.connection_pool.connection_kwargs for each in found]
        return [(each["host"], each["port"]) for each in kwargs]

    assert addresses(SLOTS) == [("here", 7003), ("one", 7001), ("two", 7002)]
    assert addresses(SLOTS, replicas=True) == [
        ("here", 7003),
        ("four", 7004),
        ("one", 7001),
        ("two", 7002),
    ]
    assert addresses([]) == []
    assert [text_of(each) for each in (None, b"", "", b"a", "a")] == ["", "", "", "a", "a"]


def test_another_node_of_the_cluster_has_the_settings_of_this_one() -> None:
    settings = {"host": "here", "port": 7000, "db": 0, "password": "x"}
    assert redirected(settings, "there", 7001) == settings | {"host": "there", "port": 7001}
    assert redirected(settings, "", 7001) == settings | {"port": 7001}
    assert redirected({"path": "/s"}, "", 7001) == {"host": "localhost", "port": 7001}


def test_a_blocking_command_takes_half_of_the_read_timeout_and_a_second_at_most() -> None:
    assert [block_limit_for(each) for each in (None, 0.5, 2.0, 3.0)] == [1.0, 0.25, 1.0, 1.0]
    check_confirm_fits(60.0, None)


def test_a_database_that_is_no_number_is_refused() -> None:
    for url in ("redis://h/x", "rediss://h/1x", "redis://h/%C2%B2", "redis://h/-1"):
        with pytest.raises(ValueError, match="must be a number"):
            check_database(url)
    for url in (
        "redis://h",
        "redis://h/",
        "redis://h/15",
        "redis://h/%31",
        "redis://h/x?db=1",
        "unix://h/x",
    ):
        check_database(url)


def test_a_password_that_ends_the_host_is_refused_and_not_shown() -> None:
    for url in ("redis://:a/b@host", "rediss://:a#b@host", "redis://:a?b@host", "redis://h?x&a@b"):
        with pytest.raises(ConfigurationError, match="percent-encode") as raised:
            check_url(url)
        assert "@" not in str(raised.value)
        assert f"{url.partition('://')[0]}://***" in str(raised.value)
    for url in ("redis://u:a%2Fb@h/0", "redis://h?a=b@c", "unix://@/path@x", "redis://[::1]:6379"):
        check_url(url)


def test_a_url_with_an_address_that_cannot_be_read() -> None:
    with pytest.raises(ConfigurationError, match=r"^Redis URL 'redis://\[::1': Invalid IPv6 URL"):
        check_url("redis://[::1")
    assert "'***'" in str(bad_url("a@b", ValueError("a@b")))
    assert "a URL begins with redis://" in str(bad_url("jobs", ValueError("a scheme")))
    for secret in ("redis://h?PASSWORD=x1", "redis://:x1@h"):
        assert "x1" not in str(bad_url(secret, ValueError("x1")))


def test_a_connection_that_fails_for_want_of_tls_has_a_hint() -> None:
    late, closed = TimeoutError("Timeout"), redis.ConnectionError("Connection CLOSED by server.")
    reset = redis.ConnectionError("Error 104. Connection reset by peer.")
    assert str(with_hint(late, True)).startswith("Timeout. The server may not speak TLS")
    assert "try rediss://" in str(with_hint(closed, False))
    assert "try rediss://" in str(with_hint(reset, False))
    for error, tls in (
        (TimeoutError("Timeout"), False),
        (redis.ConnectionError("closed"), True),
        (redis.ConnectionError("refused"), False),
    ):
        assert with_hint(error, tls) is error
        assert "try " not in str(error)


def test_the_address_of_a_server() -> None:
    assert address_of({"path": "/s", "password": "x"}) == "unix:/s"
    assert address_of({"host": "h", "password": "x"}) == "h:6379/0"
    assert address_of({"host": "h", "port": 7, "db": 3}) == "h:7/3"
    assert address_of({}) == "sentinel"


def test_a_client_of_the_wrong_kind_is_named() -> None:
    assert "not a URL: use from_url" in str(wrong_client(b"redis://:x@h", "redis.Redis"))
    assert "not int" in str(wrong_client(5, "redis.Redis"))
    text = str(wrong_client(redis.Redis(), "redis.asyncio.Redis"))
    assert "module redis.client: pass a redis.asyncio.Redis" in text
    assert "the class without Async in its name" in text


def test_a_request_is_allowed_to_the_names_of_the_server_alone() -> None:
    known = KnownHosts(["page.EXAMPLE."])
    for host in (
        "localhost",
        "LOCALHOST:8000",
        "127.0.0.1:80",
        "[::1]:80",
        "10.1.2.3",
        "page.example.",
        "Page.Example:443",
    ):
        assert known.allow([host]), host
    for host in (
        "",
        "other.example",
        "page.example.evil.example",
        "x@localhost",
        "[::1",
        "127.0.0.1.evil.example",
    ):
        assert not known.allow([host]), host
    assert not known.allow([])
    assert not known.allow(["localhost", "localhost"])


def test_what_only_this_machine_reaches() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "10.0.0.1", "::", "host", "")))
