"""``ackq acl`` prints what a server accepts."""

import json
import shlex
from collections.abc import Callable

import click.testing
import pytest
import redis

from ackq.cli import main
from ackq.cli.acl import WEAKER
from ackq.ops.acl import ROLES, rules
from tests.ops.acl.conftest import has_selectors

Print = Callable[..., list[str]]


@pytest.fixture
def printed() -> Print:
    """``printed("jobs", "consumer")``: the lines of ``ackq acl jobs consumer``."""

    def run(*args: str, code: int = 0) -> list[str]:
        result = click.testing.CliRunner().invoke(main, ["acl", *args], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result.output.splitlines()

    return run


def test_each_line_is_a_command_that_the_server_takes(
    printed: Print, admin: redis.Redis, name: str
) -> None:
    lines = printed(name) if has_selectors(admin) else printed(f'{name}"x', "--redis-6")
    lines = [line for line in lines if line.startswith("ACL ")]
    assert len(lines) == len(ROLES)
    for line in lines:
        words = shlex.split(line)
        try:
            assert admin.execute_command(*words) == b"OK"
            assert (admin.acl_getuser(words[2]) or {})["passwords"] == []
        finally:
            admin.acl_deluser(words[2])


def test_roles_and_the_name_of_the_user_can_be_chosen(printed: Print) -> None:
    (line,) = printed("jobs", "producer", "--user", "web")
    assert line == 'ACL SETUSER web reset on -@all +hello +ping +wait "(~jobs +lpush)"'
    rows = [json.loads(each) for each in printed("jobs", "monitor", "loader", "--json")]
    assert [row["role"] for row in rows] == ["monitor", "loader"]
    assert "+eval " not in printed("jobs", "consumer", "--no-eval")[0]


def test_a_partitioned_queue_has_users_of_its_own(printed: Print) -> None:
    (line,) = printed("due", "producer", "--kind", "delay", "--partitions", "4")
    assert "(~due:[0-3]:z +zadd +zrange)" in line


def test_rules_without_selectors_come_with_a_warning(printed: Print) -> None:
    warning, line = printed("jobs", "producer", "--redis-6")
    assert line == "ACL SETUSER jobs-producer reset on ~jobs -@all +hello +lpush +ping +wait"
    assert warning == f"ackq: {WEAKER}"


@pytest.mark.parametrize(
    "args",
    [
        ["jobs", "king"],
        ["jobs", "--user", "web"],
        ["jobs", "producer", "loader", "--user=x"],
        ["jobs", "--partitions", "2"],
    ],
)
def test_wrong_usage_is_code_2(printed: Print, args: list[str]) -> None:
    printed(*args, code=2)


@pytest.mark.parametrize("name", ["jobs*", "my jobs", "jobs\u3000", "jobs)", 'a"b'])
def test_a_name_that_a_pattern_would_misread_is_refused(printed: Print, name: str) -> None:
    printed(name, "producer", code=3)


def test_a_role_has_evalsha_and_eval_and_pairs_unless_they_are_refused() -> None:
    assert rules("jobs", "worker") == rules("jobs", "worker", eval=True, selectors=True)
    assert rules("jobs", "worker") != rules("jobs", "worker", selectors=False)
    assert rules("jobs", "worker") != rules("jobs", "worker", eval=False)
