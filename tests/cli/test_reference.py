"""Every command is documented, and its examples run as they are printed."""

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import click.testing
import pytest
import redis

from ackq import Groups, Queue
from ackq.cli import COMMANDS, main
from ackq.cli.reference import commands, reference
from ackq.delay import DelayQueue
from ackq.embedded import shared_url
from ackq.embedded.shared import stop_shared
from ackq.queue.claims_client import Claims
from ackq.rsmq import RSMQ
from ackq.sharded import ShardedQueue
from ackq.topic import Topic
from ackq.worker import Worker
from tests import forked

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cli.md"
#: Commands that pages show and that are not run here, with the reason.
NOT_RUN = {
    "ackq pipeline run /srv": "cron runs it in that folder; the line without the folder is run",
}
#: Ports that pages name. Tests run beside each other, so each takes another port.
PORTS = re.compile(r"(?<=:)(8383|9465)|(?<=--health-port )8080")
#: What a command prints first that runs until it is stopped.
ALIVE = ("export ", "metrics at", "http://", "watching", "a-")
#: What the examples print in place of what each server draws itself.
RECEIPT, ENTRY, DELAYED = "1795252215312092", "1795252215312-0", "1795252215312092-a-9"
#: What has no example: groups, whose commands have them.
WITHOUT = {
    "",
    *(
        name
        for name in COMMANDS
        if isinstance(main.get_command(click.Context(main), name), click.Group)
        and name != "workers"
    ),
}
#: How the help of a command begins that reads something.
READING = re.compile("Check|Count|Find|List|Look|Measure|Print|Read|Receive|Report|Show|Take|Watch")
#: What reads and has no --json: it draws a screen, or prints a file for another program.
PRINTING = {"demo", "web", "completion", "tasks schema", "pipeline infer"}
#: What starts Spark takes a while.
SPARK = (pytest.mark.spark, pytest.mark.xdist_group("own-spark"), pytest.mark.timeout(180))
#: What another test runs as well: the pipeline of its page, the demo, processes, another example.
SHOWN = re.compile(
    "ackq (pipeline (run|redrive|check .*--sample)|demo"
    "|bench .*--batch|work .*--(processes|concurrency 16))"
)
#: Queue jobs to nowhere.
PIPELINE = """
checkpoint = "state"
source.queue = "jobs"
sink.format = "noop"
"""

#: The module of `ackq tasks`.
TASKS = """
from ackq.tasks import Tasks
tasks = Tasks(None)
@tasks.task(name="images.resize")
def resize(path: str, width: int = 80): ...
"""

#: What needs no shell, no signal and no process of its own: a Python each would take a while.
IN_PROCESS = re.compile(
    r"ackq (?!serve|exporter|web|notify|work |demo|bench|pipeline|scripts|drain jobs$)[^<>|&$`]*$"
)
#: What needs no shell.
ONE_PROGRAM = re.compile(r"ackq [^<>|&$`]*$")


def examples_of(command: click.Command) -> list[str]:
    _, _, text = (command.epilog or "").partition("Examples:")
    return re.findall(r"^  (ackq .*)$", text, re.MULTILINE)


def marks_of(example: str) -> list[pytest.MarkDecorator]:
    starts_spark = "ackq pipeline (run|redrive|check .*--sample)"
    marks = [*SPARK] if re.match(starts_spark, example) else []
    return [*marks, pytest.mark.campaign] if SHOWN.match(example) else marks


def printed_on(page: Path) -> list[str]:
    """Return the commands that a page shows, as it shows them, comments included."""
    shell = "\n".join(re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.M | re.S))
    return re.findall(r"^ackq .*$", shell.replace("\\\n", ""), re.MULTILINE)


def first_program(page: str) -> str:
    """Return the first Python of a page, which its reader has saved as a module."""
    found = re.search(r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.M | re.S)
    assert found is not None
    return found[1]


PRINTED = {
    line: page.name
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for line in printed_on(page)
    if page != PAGE and not line.startswith((*NOT_RUN,))
}
EXAMPLES = [
    pytest.param(example, marks=marks_of(example))
    for example in (
        *(example for _, command in commands() for example in examples_of(command)),
        *PRINTED,
    )
]


def test_the_reference_is_what_the_program_says() -> None:
    assert PAGE.read_text() == reference(), "run python -m ackq.cli.reference"


def test_every_command_is_in_the_reference_and_explained() -> None:
    page = PAGE.read_text()
    for names, command in commands():
        assert f"# {' '.join(('ackq', *names))}\n" in page
        assert command.help


def test_every_command_has_an_example() -> None:
    missing = {" ".join(names) for names, command in commands() if not examples_of(command)}
    assert missing == WITHOUT


def test_every_option_is_explained() -> None:
    for names, command in commands():
        for each in command.params:
            assert isinstance(each, click.Argument) or each.help or each.name == "version", names


def test_the_help_of_every_option_ends_with_its_default() -> None:
    for names, command in commands():
        for each in command.params:
            if isinstance(each, click.Option) and isinstance(each.default, int | float | str):
                shown = re.search(r"\[([^ \]]+)[^]]*\]$", each.help or "")
                expected = str(each.default).removesuffix(".0")
                assert each.is_flag or not expected or (shown and shown[1] == expected), (
                    names,
                    each.name,
                )


def test_what_reads_prints_json() -> None:
    plain = {
        " ".join(names)
        for names, command in commands()
        if "as_json" not in {each.name for each in command.params}
        and READING.match(command.help or "")
        and not isinstance(command, click.Group)
    }
    assert plain == PRINTING


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a reader's embedded server, which commands without ``--url`` use."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACKQ_HOME", str(home))
        try:
            yield home
        finally:
            stop_shared()


@pytest.fixture
def url(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of that server."""
    monkeypatch.delenv("ACKQ_REDIS_URL", raising=False)
    monkeypatch.setenv("ACKQ_HOME", str(home))
    return shared_url()


@pytest.fixture
def mailer(url: str) -> Iterator[None]:
    """A worker that the examples name."""
    with Queue.from_url(url, "mails") as queue:
        worker = Worker(queue, print, name="mailer", heartbeat=0.1, history=False)
        thread = threading.Thread(target=worker.run)
        thread.start()
        yield
        worker.stop()
        thread.join()


def stock_other_kinds(url: str) -> None:
    """Fill the queues that the examples name: charges, orders (RSMQ, sharded), events, due."""
    with redis.Redis.from_url(url) as client:
        client.unlink(
            *client.keys("rsmq:*"),
            *client.keys("events:*"),
            *client.keys("*:z"),
            *client.keys("*:h"),
            *client.keys("{orders*"),
            *client.keys("{jobs*"),
            "-",
        )
    with Queue.from_url(url, "charges", groups=Groups("customer", on_dead="stop")) as charges:
        charges.purge(dead=True)
        charges.push({"customer": "c-17"})
        charges.reject(*charges.pop_many(1), reason="no such customer")
    with RSMQ.from_url(url) as rsmq:
        rsmq.create_queue("orders")
        rsmq.send_message("orders", "hello")
    with Topic.from_url(url, "events") as topic:
        topic.publish(b"hello")
        topic.subscribe("billing")
    with DelayQueue.from_url(url, "due") as due:
        due.push("a", b"hello")
    with ShardedQueue.from_url(url, "orders", 2) as orders:
        orders.resume()
        orders.push_many([{"order": number} for number in range(4)])


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(
    url: str,
    home: Path,
    mailer: None,
    example: str,
    tmp_path: Path,
    free_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Queue.from_url(url, "jobs") as queue:
        queue.purge(dead=True)
        queue.resume()
        queue.push_many([{"id": f"a-{number}", "customer": 17} for number in range(1, 5)])
        held = queue.pop()
        queue.reject(*queue.pop_many(1), reason="no such customer")
        queue.push({"id": "a-9"}, delay=600)
        (later,) = queue.peek(1, "delayed")
        (letter,) = queue.dead_letters()
        with Claims.from_url(url, "jobs", "nightly") as claims:
            claims.begin()
            claims.claim(0, messages=1)
        queue.schedules.put("report", {"task": "report"}, every=3600)
    assert held is not None
    stock_other_kinds(url)
    with Queue.from_url(url, "cars") as cars:
        cars.push({"origin": "USA"})
    if "resize jobs" in example:
        with ShardedQueue.from_url(url, "jobs", 2) as sharded:
            sharded.push({"id": "a"})
    (tmp_path / "orders.ndjson").write_text('{"order": 1}\n{"order": 2}\n')
    (tmp_path / "tasks.py").write_text("def handle(message): print(message.id, flush=True)\n")
    page = PRINTED.get(example)
    (tmp_path / "images.py").write_text(first_program(page) if page == "tasks.md" else TASKS)
    (tmp_path / "cars.ndjson").write_text('{"origin": "USA"}\n')
    (tmp_path / "users").write_text("ada:c2VjcmV0c2VjcmV0c2VjcmV0\n")
    (tmp_path / "cars.toml").write_text(PIPELINE)
    (tmp_path / "old.toml").write_text(PIPELINE)
    line = example.replace(DELAYED, later.entry).replace(RECEIPT, str(held.receipt))
    line = PORTS.sub(str(free_port), line.replace(ENTRY, letter.entry))
    if IN_PROCESS.match(line):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", [*sys.path])  # of an example that imports
        done = click.testing.CliRunner().invoke(main, shlex.split(line, True)[1:])
        sys.modules.pop("images", None)
        assert done.exit_code == 0, done.output
        return
    serves = re.search("ackq (exporter|web)", line)
    if serves and "--listen" not in line:
        line += f" --listen 127.0.0.1:{free_port}"
    endless = (
        serves
        or "notify" in line
        or "--port" in line
        or ("work " in line and "--drain" not in line)
    )
    if endless:
        line = line.replace("6380", str(free_port))
    alone = ONE_PROGRAM.match(line)
    terminal, answers = pty.openpty()
    os.write(terminal, b"y\n")  # for what asks
    program = [sys.executable, "-P", "-c", "from ackq.cli import main; main()"]
    process = (forked.Popen if alone else subprocess.Popen)(
        [*program, *shlex.split(line, True)[1:]] if alone else ["sh", "-c", line],
        cwd=tmp_path,
        text=True,
        stdin=answers if "drain" in line else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if endless else subprocess.PIPE,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "ACKQ_HOME": str(tmp_path if "serve" in line else home),
            "ACKQ_WEBHOOK": "https://chat.example.com/hooks/T0B1",
            **({"ACKQ_REDIS_URL": url} if "--master yarn" in line else {}),
            "PYTHONUNBUFFERED": "1",
        },
    )
    with process:
        try:
            if endless:
                assert process.stdout is not None
                seen = iter(process.stdout.readline, "")
                assert any(each.startswith(ALIVE) or "working on" in each for each in seen)
                process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=170 if "pipeline" in line else 50)
        finally:
            process.kill()
            os.close(terminal)
            os.close(answers)
    assert process.returncode == 0, output + (errors or "")
    assert "Traceback" not in (errors or output)
