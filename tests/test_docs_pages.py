"""The examples of the guides run, in the order in which a page shows them."""

import ast
import json
import re
import shlex
import shutil
import subprocess
import urllib.request
from importlib import import_module
from pathlib import Path

import click
import pytest
import redis

import ackq
from ackq import Queue, errors
from ackq.cli import main
from ackq.metrics.exporter import Exporter
from tests.examples import RunExamples, examples
from tests.test_layers import LAYERS
from tests.waiting import wait_until

TESTS = Path(__file__).parent
ROOT = TESTS.parent
DOCS = ROOT / "docs"
#: The asyncio modules that have a twin, and the workers, which are named by what they run in.
TWINS = sorted((ROOT / "ackq").rglob("*_async.py"))
WORKERS = {"worker/threads.py", "worker/tasks.py"}
PYTHON = r"^```python(?: no-run)?\n(.*?)^```"
#: Pages whose examples run in the tests of a product.
RUN_BY = {
    "delay.md": "delay/test_docs.py",
    "dropin.md": "dropin/test_guide.py",
    "moving-from.md": "queue/test_from_celery.py",
    "moving-over.md": "dropin/test_guide.py",
    "pipeline.md": "first_hour/test_pages.py",
    "pipeline-deploy.md": "spark/test_connect.py",
    "rsmq.md": "rsmq/test_page.py",
    "sharded.md": "delay/test_docs.py",
    "spark.md": "first_hour/test_pages.py",
    "spark-sink.md": "first_hour/test_pages.py",
    "tasks.md": "tasks/test_docs.py",
    "testing.md": "testing/test_plugin.py",
    "topic.md": "topic/test_docs.py",
    "tracing.md": "otel/test_docs.py",
    "web.md": "web/test_mounted.py",
    "worker.md": "worker/test_docs.py",
}
#: The other pages with examples.
PAGES = sorted(
    page.name for page in DOCS.glob("*.md") if page.name not in RUN_BY and examples(str(page))
)
#: Packages whose names are public, beside ``ackq`` itself.
PUBLIC = (
    "queue",
    "delay",
    "topic",
    "rsmq",
    "sharded",
    "tasks",
    "worker",
    "otel",
    "dropin",
    "spark",
    "embedded",
    "testing",
    "dropin.asyncio",
)
#: Pages that may name commands. That of the command line has tests of its own.
NAMING_COMMANDS = [
    *sorted(set(DOCS.glob("*.md")) - {DOCS / "cli.md"}),
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    ROOT / "lua" / "README.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(run_examples: RunExamples, page: str) -> None:
    run_examples(f"docs/{page}")


def test_the_picture_of_the_layers_is_the_one_that_the_imports_follow() -> None:
    picture = _page("architecture.md").split("```text\n")[1].split("╞")[0]
    rows = [re.findall(r"\w+", line) for line in picture.splitlines()]
    shown = [set(row) for row in rows if row]
    assert shown == [set(layer) for layer in reversed(LAYERS)]


def test_every_path_that_the_architecture_names_exists() -> None:
    page = _page("architecture.md")
    paths = re.findall(r"`((?:ackq|lua|tests|tools|docs|benchmarks)/[\w./]*)`", page)
    assert len(paths) > 20
    for path in paths:
        assert (DOCS.parent / path).exists(), path


def test_the_twins_that_are_written_by_hand_are_those_that_the_architecture_explains() -> None:
    package = ROOT / "ackq"
    twins = [path.with_name(f"{path.stem.removesuffix('_async')}.py") for path in TWINS]
    by_hand = {
        twin.relative_to(package).as_posix()
        for twin in twins
        if "tools/blocking.py" not in twin.read_text().partition("\n")[0]
    }
    table = _page("architecture.md").split("| how threads and tasks differ |")[1].split("\n\n")[0]
    assert set(re.findall(r"`([\w/]+\.py)`", table)) - WORKERS == by_hand


def test_the_figures_that_the_autoscaling_guide_shows_are_those_of_the_exporter(
    plain_client: redis.Redis, name: str
) -> None:
    (shown,) = re.findall(r"^```json\n(.*?)^```", _page("autoscaling.md"), re.M | re.S)
    with Queue(plain_client, name) as queue, Exporter(plain_client, [name]) as exporter:
        queue.push_many([{"id": "working"}, {"id": "later"}])
        queue.pop()
        queue.nack(*queue.pop_many(1), delay=600)
        queue.push_many([{"id": "due"}, {"id": "expired"}])
        due = queue.pop_many(1)
        queue.pop(visibility_timeout=0.001)
        queue.nack(*due, delay=0)
        wait_until(lambda: queue.stats().expired, "the lease ends")
        assert plain_client.llen(name) == 0
        _, port = exporter.address
        url = f"http://127.0.0.1:{port}/v1/queues/{name}"
        with urllib.request.urlopen(url, timeout=10) as reply:
            found = json.load(reply)
    assert found.keys() == json.loads(shown).keys()
    assert (found["backlog"], found["ready"], found["in_flight"]) == (3, 2, 1)


def test_the_tests_of_a_product_run_the_examples_of_its_pages() -> None:
    for page, runner in RUN_BY.items():
        assert page in (TESTS / runner).read_text(), f"{runner} does not run {page}"


def test_no_example_needs_a_server_on_the_default_port() -> None:
    """They use the embedded server, so that they run as printed. The drop-in and the mounted page
    use the server of an existing program."""
    for page in (*DOCS.glob("*.md"), ROOT / "README.md"):
        if page.name not in ("dropin.md", "moving-over.md", "web.md"):
            for example in examples(str(page)):
                assert not re.search(r"\bRedis\(\)|localhost:6379", example), page.name


def test_every_example_is_python() -> None:
    """Also those marked no-run, which need more than one server."""
    found = 0
    for page in (*DOCS.glob("*.md"), ROOT / "README.md"):
        for number, example in enumerate(re.findall(PYTHON, page.read_text(), re.M | re.S)):
            compile(example, f"{page.name} example {number}", "exec")
            found += 1
    assert found > 40


@pytest.mark.parametrize("page", NAMING_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    shell = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)).replace("\\\n", " ")
    lines = re.findall(r"^ackq (.*)$", shell, re.MULTILINE)
    lines += re.findall(r"`ackq ([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    for line in lines:
        words = shlex.split(line.replace("\n", " "), comments=True)
        command, rest = _command(words)
        options = {option for each in command.params for option in each.opts}
        for word in rest:
            if re.match(r"--?[a-z]", word):
                assert word in options | {"--help", "-h"}, f"ackq {line}: {word}"


def test_the_reference_lists_every_public_name() -> None:
    page = "\n".join(path.read_text() for path in sorted(DOCS.glob("api*.md")))
    packages = [ackq, *(import_module(f"ackq.{name}") for name in PUBLIC)]
    for package in packages:
        whole = re.search(rf"^\.\. automodule:: {package.__name__}$", page, re.MULTILINE)
        for name in package.__all__:
            single = rf"^\.\. autoclass:: ackq(\.\w+)*\.{name}$"
            error = hasattr(errors, name)  # on a page of its own
            assert whole or error or re.search(single, page, re.MULTILINE), f"{package}: {name}"


def test_the_texts_in_troubleshooting_are_those_of_the_code() -> None:
    """An ellipsis stands for names and numbers; the rest is in one module of the package."""
    quoted = re.findall(r"^### `(.*)`$", _page("troubleshooting.md"), re.MULTILINE)
    assert len(quoted) >= 20
    modules = [_texts(path) for path in (ROOT / "ackq").rglob("*.py")]
    for text in quoted:
        parts = [part.strip() for part in text.split("…")]
        assert any(all(part in texts for part in parts) for texts in modules), text


def _texts(module: Path) -> str:
    """Return the string literals of a module, one a line."""
    literals = (
        node.value
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return "\n".join(literals)


def _command(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that the first words name, and the other words."""
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"there is no command {' '.join(words)}"
        command, words = found, words[1:]
    return command, words


def test_the_calls_of_other_languages_run_as_printed(
    plain_client: redis.Redis, tmp_path: Path
) -> None:
    client = shutil.which("redis-cli") or shutil.which("valkey-cli")
    if client is None:
        pytest.skip("there is no redis-cli")
    address = plain_client.connection_pool.connection_kwargs
    page = (ROOT / "lua" / "README.md").read_text()
    (shell,) = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    taking, settling = shell.split("# the receipt,")
    (printed,) = set(re.findall(r"\b\d{16}\b", settling))
    main(["scripts", "export", str(tmp_path)], standalone_mode=False)
    where = f'redis-cli() {{ {client} -h {address["host"]} -p {address["port"]} "$@"; }}\n'
    try:
        taken = _bash(tmp_path, where + taking)
        assert taken[0] == "1"
        assert taken[-2:] == ["a-1", '{"id":"a-1","task":"resize"}']
        receipt = next(line for line in taken if re.fullmatch(r"\d{16}", line))
        loading = taking.split("redis-cli LPUSH")[0]
        assert _bash(tmp_path, f"{where}{loading}# {settling.replace(printed, receipt)}") == ["1"]
    finally:
        for key in plain_client.scan_iter("jobs*"):
            plain_client.unlink(key)


def _bash(folder: Path, script: str) -> list[str]:
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stdout.splitlines()


def _page(name: str) -> str:
    return (DOCS / name).read_text()


def test_the_page_of_the_architecture_names_every_place_of_an_operation() -> None:
    section = _page("architecture.md").split("### An operation of the list queue\n")[1]
    usual = re.findall(r"^\| `([\w/.]*)` \|", section, re.MULTILINE)
    with_a_class_and_a_page = re.findall(r"^A class .*", section, re.MULTILINE)[0].count("`")
    assert len(usual) + with_a_class_and_a_page // 2 <= 14
    named = tuple(re.findall(r"`((?:ackq|lua|tests|docs)/[\w/.]*)`", section))
    # One of the newest operations, and its script. Tools write the other places.
    for path in (*ROOT.glob("ackq/**/*.py"), *ROOT.glob("lua/**/*.lua"), *TESTS.glob("**/*.py")):
        uses = re.search(r"\bfind_all\b|[\"']find[\"']", path.read_text())
        if uses and path.name != "client.py" and path != Path(__file__):
            place = path.relative_to(ROOT).as_posix()
            assert place.startswith(named), f"docs/architecture.md does not name {place}"
