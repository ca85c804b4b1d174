"""The files of docs/production are valid, and give workers time to stop."""

from __future__ import annotations

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

from tests.servers.container import engine_with_image
from tests.servers.private import private_server
from tests.servers.target import Absent
from tests.test_docs_pages import _command

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
    done = subprocess.run(
        [verify, "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


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


def test_the_image_builds() -> None:
    (base,) = re.findall(r"^FROM (\S+)$", DOCKERFILE, re.MULTILINE)
    try:
        engine = engine_with_image(base)
    except Absent as reason:
        pytest.skip(str(reason))
    with contextlib.closing(engine):
        engine.images.build(path=str(FOLDER), rm=True)


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
