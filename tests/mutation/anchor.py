"""A test that starts the server of the run before `plugin` forks."""

from __future__ import annotations

import redis


def test_the_server_is_up(plain_client: redis.Redis) -> None:
    assert plain_client.ping()
