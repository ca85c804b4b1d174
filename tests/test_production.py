"""The files of docs/production are valid, and give workers time to stop."""

import contextlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from ackq import Queue
from tests.first_hour.environment import Environments, run
from tests.servers.container import engine_with_image
from tests.servers.private import private_server
from tests.servers.target import Absent
from tests.test_docs_pages import _command
from tests.waiting import wait_until

FOLDER = Path(__file__).parent.parent / "docs" / "production"
UNIT = (FOLDER / "ackq-jobs.service").read_text()
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
KUBERNETES = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))
#: Until ackq work ends after its grace, in seconds.
ENDING = 10


def test_every_command_exists_with_its_options() -> None:
    commands = _commands()
    assert len(commands) == 4
    for words in commands:
        command, rest = _command(words)
        options = {option for each in command.params for option in each.opts}
        assert {word for word in rest if word.startswith("-")} <= options


def test_workers_get_time_to_stop() -> None:
    needed = {int(words[words.index("--grace") + 1]) for words in _commands() if "--grace" in words}
    (unit,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    pod = KUBERNETES[0]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    compose = COMPOSE["services"]["worker"]["stop_grace_period"]
    assert min(int(unit), pod, int(compose.removesuffix("s"))) > max(needed) + ENDING


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("there is no systemd-analyze")
    unit = tmp_path / "ackq-jobs.service"
    unit.write_text(UNIT.replace("/srv/jobs/.venv/bin/ackq", sys.executable))
    assert _ends([verify, "verify", str(unit)]) == (0, "")


def test_compose_accepts_the_file() -> None:
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) and _ends([*command, "version"]) == (0, ""):
            break
    else:
        pytest.skip("there is no docker compose")
    assert _ends([*command, "-f", str(FOLDER / "compose.yaml"), "config", "--quiet"]) == (0, "")


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_kubernetes_accepts_the_manifests(tmp_path: Path) -> None:
    """By its own schemas, which take 100 MB, so they are in an environment of their own."""
    run(sys.executable, "-m", "venv", tmp_path)
    run(tmp_path / "bin" / "pip", "install", "--quiet", "kubernetes-validate")
    check = tmp_path / "bin" / "kubernetes-validate"
    run(check, "--strict", FOLDER / "kubernetes.yaml")
    misspelt = tmp_path / "misspelt.yaml"
    misspelt.write_text((FOLDER / "kubernetes.yaml").read_text().replace("Seconds: 45", "Secs: 45"))
    with pytest.raises(AssertionError, match="terminationGracePeriodSecs"):
        run(check, "--strict", misspelt)


def test_a_redis_with_these_settings_starts_and_has_them(tmp_path: Path) -> None:
    lines = [
        line.split(maxsplit=1)
        for line in (FOLDER / "redis.conf").read_text().splitlines()
        if not line.startswith("#")
    ]
    options = {name.replace("-", "_"): value for name, value in lines}
    with (
        private_server(tmp_path, None, **options) as server,
        redis.Redis.from_url(server.url, decode_responses=True) as client,
    ):
        for name, value in lines:
            assert client.config_get(name) == {name: value}


def test_the_probes_ask_what_the_worker_answers() -> None:
    (container,) = KUBERNETES[0]["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    probes = [container["startupProbe"], container["livenessProbe"]]
    words = container["args"]
    assert int(words[words.index("--health-port") + 1]) == port["containerPort"]
    assert [probe["httpGet"] for probe in probes] == [
        {"path": "/healthz", "port": port["name"]}
    ] * 2


@pytest.mark.timeout(400)
@pytest.mark.xdist_group("packaging")
def test_the_image_builds_and_its_worker_does_a_job_and_stops(tmp_path: Path) -> None:
    (base,) = re.findall(r"^FROM (\S+)$", DOCKERFILE, re.MULTILINE)
    try:
        engine = engine_with_image(base)
    except Absent as reason:
        pytest.skip(str(reason))
    context = tmp_path / "context"
    shutil.copytree(FOLDER, context)
    Environments(context)  # the wheel of this checkout, instead of the released one
    install = "RUN pip install --no-cache-dir "
    assert f"{install}ackq\n" in DOCKERFILE
    copied = DOCKERFILE.replace(f"{install}ackq", f"COPY *.whl .\n{install}*.whl")
    (context / "Dockerfile").write_text(copied)
    with contextlib.closing(engine), private_server(tmp_path / "redis") as server:
        image, _ = engine.images.build(path=str(context), rm=True, network_mode="host")
        worker = engine.containers.run(
            image, detach=True, network_mode="host", environment={"ACKQ_REDIS_URL": server.url}
        )
        try:
            with Queue.from_url(server.url, "jobs") as queue:
                queue.push({"task": "resize"})
            wait_until(lambda: b"resize" in worker.logs(), "the worker handles a message", 60)
            worker.stop(timeout=45)
            assert worker.wait()["StatusCode"] == 0
        finally:
            worker.remove(force=True)
            image.remove(force=True)


def _ends(command: list[str]) -> tuple[int, str]:
    """Return the exit code of a command, and what it prints to stderr."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def _commands() -> list[list[str]]:
    """Return the words after ``ackq`` of each command that a file runs."""
    (unit,) = re.findall(r"^ExecStart=\S+/ackq ((?:.*\\\n)*.*)", UNIT, re.MULTILINE)
    (image,) = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    pods = [document["spec"]["template"]["spec"] for document in KUBERNETES[:2]]
    lists: list[list[Any]] = [
        yaml.safe_load(image),
        *(pod["containers"][0]["args"] for pod in pods),
    ]
    assert all(words[0] == "ackq" for words in lists)
    return [shlex.split(unit.replace("\\\n", " ")), *(words[1:] for words in lists)]
