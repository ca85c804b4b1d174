"""The pytest plugin and the server of tests, as users' own test runs meet them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import redis

import ackq
from ackq.errors import ConfigurationError
from ackq.tasks import Tasks
from ackq.testing import connected, delete, server_url
from tests.waiting import wait_until

ROOT = Path(ackq.__file__).parent.parent
#: The examples of the guide, and what else a user's project may hold.
EXAMPLES = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/testing.md").read_text(), re.M | re.S)
TESTS = """
import pytest

from ackq import AsyncQueue
from ackq.tasks import AsyncTasks, Tasks
from ackq.testing import drain

program = Tasks("redis://127.0.0.1:1", queue="jobs")
on_asyncio = AsyncTasks("redis://127.0.0.1:1", queue="jobs")
seen = []


@program.task
async def note(n: int) -> None:
    seen.append(n)


@on_asyncio.task
async def note_too(n: int) -> None:
    seen.append(n)


@pytest.mark.parametrize("n", range(2))
def test_tasks_of_the_program(ackq_tasks, n):
    assert ackq_tasks(program, on_asyncio) is program
    ackq_tasks(program)
    seen.clear()
    note.push(n)
    assert len(drain(program)) == 1
    assert seen == [n]
    note.push(99)  # which the next test does not get


@pytest.mark.anyio
@pytest.mark.parametrize("n", range(2))
async def test_tasks_in_each_loop(ackq_tasks, n):
    ackq_tasks(program, on_asyncio)
    seen.clear()
    await note_too.push(n)
    assert len(await drain(on_asyncio)) == 1
    note.push(n + 10)
    assert len(drain(program)) == 1
    assert seen == [n, n + 10]


def test_the_program_has_its_own_server_again():
    assert program.queue_names == ("jobs",)
    assert program.queue().address == on_asyncio.queue().address == "127.0.0.1:1/0"


@pytest.mark.parametrize("n", range(3))
def test_one_at_a_time(ackq_queue, n):
    queue = ackq_queue()
    queue.push({"n": n})
    assert [message.json()["n"] for message in drain(queue, print)] == [n]


def test_settings_and_name(ackq_queue, ackq_client):
    queue = ackq_queue("jobs", max_receives=3)
    assert queue.config.max_receives == 3
    queue.push({"left": "behind"})
    queue.pop()
    assert ackq_client.exists("jobsBACKUP")


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_in_a_loop(ackq_url, ackq_queue):
    async with AsyncQueue.from_url(ackq_url, ackq_queue().name) as queue:
        await queue.push({"n": 1})
        assert len(await drain(queue, print)) == 1


def test_nothing_is_left_behind(ackq_client):
    assert ackq_client.keys("jobs*") == []
"""


@pytest.mark.parametrize(
    ("processes", "loops"), [("0", "anyio.pytest_plugin"), ("2", "pytest_asyncio.plugin")]
)
def test_a_users_test_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, processes: str, loops: str
) -> None:
    files = {f"test_example_{n}": example for n, example in enumerate(EXAMPLES)}
    mark = "asyncio" if "asyncio" in loops else "anyio"
    pytester.makepyfile(test_own=TESTS.replace("mark.anyio", f"mark.{mark}"), **files)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("ACKQ_TEST_URL", raising=False)
    plugins = [
        "-Werror",
        "-p",
        "pytest_ackq",
        "-p",
        "xdist",
        "-p",
        loops,
        "-p",
        "no:cacheprovider",
    ]
    result = pytester.runpytest_subprocess(*plugins, "-n", processes, "--dist", "loadfile")
    result.assert_outcomes(passed=16)


def test_the_plugin_imports_ackq_only_for_a_test_that_asks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import sys\ndef test_nothing():\n    assert not {'ackq', 'redis'} & sys.modules.keys()"
    )
    pytester.plugins = []
    result = pytester.run(
        *("env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", f"PYTHONPATH={ROOT}"),
        *("python", "-m", "pytest", "-p", "pytest_ackq", "-q"),
    )
    result.assert_outcomes(passed=1)


def test_a_private_server_ends_when_the_test_run_is_killed() -> None:
    killed = (
        "import os, redis\n"
        "from ackq.testing import server_url\n"
        "with server_url() as url, redis.Redis.from_url(url) as client:\n"
        "    print(client.info('server')['process_id'], client.config_get('dir')['dir'])\n"
        "    os.sys.stdout.flush()\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    variables = {name: value for name, value in os.environ.items() if name != "ACKQ_TEST_URL"}
    command = [sys.executable, "-c", killed]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=variables, cwd=ROOT)
    assert run.returncode == -9
    pid, folder = run.stdout.split(maxsplit=1)
    wait_until(lambda: not Path(folder.strip()).exists(), "the folder to be gone")
    wait_until(lambda: not psutil.pid_exists(int(pid)), "the server to be gone")


def test_a_server_that_is_not_for_tests_is_left_alone(
    plain_client: redis.Redis, url: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_client.set(token, "a user's")
    monkeypatch.setenv("ACKQ_TEST_URL", url)
    with pytest.raises(ConfigurationError, match="may not be for tests"), server_url():
        pass
    assert plain_client.keys() == [token.encode()]


def test_an_empty_database_is_marked_and_accepted_again(
    plain_client: redis.Redis, url: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACKQ_TEST_URL", url)
    with server_url() as first:
        plain_client.set(token, "of the first run")
    with server_url() as second:
        assert first == second == url
    assert plain_client.delete("ackq-test") == 1


def test_a_queue_with_the_name_of_production_s_is_not_deleted(
    pytester: pytest.Pytester,
    plain_client: redis.Redis,
    url: str,
    token: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody has pointed the variable at a server whose queues were empty at that moment."""
    pytester.makepyfile(
        f"def test_a(ackq_queue, ackq_client):\n    ackq_queue({token!r}).push({{}})"
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("ACKQ_TEST_URL", url)
    plain_client.set("ackq-test", "1")
    plain_client.lpush(token, "of production")
    result = pytester.runpytest_subprocess("-p", "pytest_ackq", "-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    assert plain_client.lrange(token, 0, -1) == [b"of production"]
    plain_client.delete("ackq-test", token)


def test_only_the_keys_of_a_queue_are_deleted_and_only_those_of_a_test(
    plain_client: redis.Redis, kit_url: str, url: str, token: str
) -> None:
    odd = f"{token}*[a]"
    kept = {f"{token}*[a]jobs", f"{token}xx[a]", f"{token}*[a", token}
    gone = {odd, f"{odd}BACKUP", f"{odd}:shards"}
    with redis.Redis.from_url(kit_url) as client:
        for key in kept | gone:
            client.set(key, 1)
            plain_client.set(key, 1)
        delete(client, odd)
        assert set(client.keys(f"*{token}*")) == {key.encode() for key in kept}
        client.delete(*kept)
    with pytest.raises(ConfigurationError, match="not a test's"):
        delete(plain_client, odd)
    with pytest.raises(ConfigurationError, match="not a test's"), connected(Tasks(None), url=url):
        pass
    assert plain_client.delete(*kept, *gone) == len(kept | gone)
