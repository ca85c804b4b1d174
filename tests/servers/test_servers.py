"""The servers of the suite are what the header says they are."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from tests.conftest import MakeQueue
from tests.facade import AsSync, Portal
from tests.left_open import left_open
from tests.servers import CLUSTERS, PLAIN, Fleet, Survey, Target, private_server
from tests.waiting import wait_until


def kind(target: Target) -> str:
    return target.name.removesuffix(f"-{target.version}")


def info(client: Any, section: str) -> dict[str, Any]:
    found: dict[str, Any] = client.info(section)
    return found


def test_every_target_answers_in_both_flavours(
    make_client: Callable[[], Any], flavour: str, portal: Portal
) -> None:
    client = make_client()
    assert client.ping() if flavour == "sync" else portal.call(client.ping)


def test_every_target_has_the_version_in_the_header(target: Target, survey: Survey) -> None:
    found = info(target.control, "server")
    assert found.get("valkey_version", found["redis_version"]) == target.version
    assert any(f"{kind(target)} {target.version}" in line for line in survey.header())


def test_the_name_is_the_tests_own_and_keeps_to_one_slot(target: Target, name: str) -> None:
    client = target.make_client()
    client.mset({name: "1", f"{name}BACKUP": "2"})  # one command: a cluster refuses two slots
    assert client.exists(name, f"{name}BACKUP") == 2
    client.close()


def test_one_body_drives_a_queue_of_either_flavour(make_queue: MakeQueue) -> None:
    queue = make_queue(visibility_timeout=5.0)
    queue.push({"id": "a"})
    message = queue.pop()
    assert message.json() == {"id": "a"}
    assert queue.ack(message) == 1


def only(fleet: Fleet, survey: Survey, kind: str) -> Target:
    if kind not in survey.offers:
        pytest.skip(f"the run has no {kind}")
    return fleet.get(kind)


@pytest.mark.parametrize("kind", CLUSTERS)
def test_the_cluster_spans_three_nodes(fleet: Fleet, survey: Survey, token: str, kind: str) -> None:
    control: Any = only(fleet, survey, kind).control
    assert len(control.get_primaries()) == 3
    for number in range(60):
        control.set(f"{token}{number}", "1")
    sizes = [control.dbsize(target_nodes=node) for node in control.get_primaries()]
    assert sum(sizes) == 60
    assert all(sizes)


@pytest.mark.parametrize("kind", ["sentinel", "valkey-sentinel"])
def test_the_sentinel_resolves_the_primary_and_its_replica_follows(
    fleet: Fleet, survey: Survey, kind: str
) -> None:
    replication = info(only(fleet, survey, kind).control, "replication")
    assert replication["role"] == "master"
    assert replication["connected_slaves"] == 1


def test_tls_is_verified(fleet: Fleet, survey: Survey) -> None:
    url = only(fleet, survey, "tls").url
    assert url is not None
    without_authority = url.partition("?")[0]
    with (
        redis.Redis.from_url(without_authority) as stranger,
        pytest.raises(redis.ConnectionError) as caught,
    ):
        stranger.ping()
    causes = [caught.value.__cause__, caught.value.__context__]
    assert any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes)


def test_a_private_server_restarts_on_its_port_with_its_data(tmp_path: Path) -> None:
    with (
        private_server(tmp_path, maxmemory="50mb") as server,
        redis.Redis.from_url(server.url, decode_responses=True) as client,
    ):
        assert client.config_get("maxmemory") == {"maxmemory": str(50 * 1024 * 1024)}
        client.set("key", "value")
        port = server.port
        server.kill()
        server.start()
        assert server.port == port
        assert client.get("key") == "value"


def test_a_private_server_can_have_a_replica(tmp_path: Path) -> None:
    with (
        private_server(tmp_path / "primary") as primary,
        private_server(tmp_path / "replica", replicaof=f"127.0.0.1 {primary.port}") as replica,
        redis.Redis.from_url(primary.url) as writer,
        redis.Redis.from_url(replica.url) as reader,
    ):
        writer.set("key", "value")
        wait_until(lambda: reader.get("key") == b"value", "the replica to have the key")


def test_keys_that_a_test_leaves_behind_fail_it(
    pytester: pytest.Pytester, survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = survey.first(PLAIN)
    if plain is None:
        pytest.skip("the run has no plain server")
    monkeypatch.setenv("ACKQ_TEST_SERVERS", plain)
    pytester.makepyfile(
        test_leak="""
        def test_tidy(plain_client, name):
            plain_client.set(name + "DEAD", "1")

        def test_leaky(plain_client):
            plain_client.set("stray", "1")
        """
    )
    pytester.makeconftest("from tests.conftest import *")
    # Ahead of site-packages, where some distributions leave a package called tests.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    outcome = pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=2, errors=1)
    outcome.stdout.fnmatch_lines(["*keys without the test's name: *stray*"])


# --- the facade -----------------------------------------------------------------


class Sample:
    """What an asynchronous API may look like."""

    size = 3

    def __init__(self) -> None:
        self.open = False

    async def double(self, value: int) -> int:
        return 2 * value

    async def fail(self) -> None:
        raise LookupError("as asked")

    async def count(self) -> Any:
        for number in range(self.size):
            yield number

    async def __aenter__(self) -> Sample:
        self.open = True
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.open = False

    async def aclose(self) -> None:
        self.open = False


def test_an_asynchronous_object_looks_synchronous(portal: Portal) -> None:
    sample = AsSync(portal, Sample())
    assert sample.size == 3
    assert sample.double(2) == 4
    assert list(sample.count()) == [0, 1, 2]
    assert next(iter(sample.count())) == 0
    with pytest.raises(LookupError, match="as asked"):
        sample.fail()
    with sample as entered:
        assert entered.open
    assert not sample.open
    sample.close()


def test_an_asyncio_connection_that_is_left_open_is_noticed(
    plain_client: redis.Redis, portal: Portal
) -> None:
    address = plain_client.connection_pool.connection_kwargs
    for closes in (True, False):
        client = redis.asyncio.Redis(host=address["host"], port=address["port"])
        portal.call(client.ping)
        if closes:
            portal.call(client.aclose)
        assert bool(left_open()) != closes
    portal.call(client.aclose)
