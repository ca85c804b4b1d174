"""Imports go down only, so that a change has one place and the protocol stays pure."""

import ast
import functools
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import ackq

# One process reads all modules, for all tests.
pytestmark = pytest.mark.xdist_group("layers")

#: The packages from the bottom up, each with what it is for. A module may import from its own
#: package and from those below; packages on one level do not know each other.
LAYERS: tuple[dict[str, str], ...] = (
    {
        "errors": "every error that users see",
        "escaping": "makes untrusted text safe to show",
        "late_names": "imports a package's names when they are first used",
    },
    {"setting_types": "settings have the types of their annotations"},
    {"config": "settings, checked"},
    {"scripts": "loads lua/", "embedded": "a Redis of ackq's own"},
    {"core": "what several products share; it knows none of them"},
    {"staging": "rows that become visible with a commit", "membership": "who serves what"},
    {
        "queue": "the list queue",
        "delay": "the delay queue",
        "topic": "the replayable topic",
        "rsmq": "RSMQ",
    },
    {"sharded": "the list queue over several nodes"},
    {"ops": "looks after queues"},
    {"metrics": "figures for Prometheus", "web": "the page for operators"},
    {"worker": "hands messages to functions"},
    {"tasks": "functions with typed arguments as messages"},
    {"process": "worker processes and their parent", "otel": "OpenTelemetry's spans and metrics"},
    {"dropin": "redis-py's calls, crash-safe", "bench": "measures", "demo": "shows"},
    {"spark": "source, sink and pipeline", "testing": "for the tests of programs"},
    {"cli": "the command ackq"},
)
#: What operations may not touch: they would no longer be the same for threads and tasks, or not
#: twice the same in a test.
IMPURE = {
    *("asyncio", "os", "select", "socket", "ssl", "subprocess", "threading", "time"),
    *("random", "secrets", "uuid"),
}
#: Calls that read a clock, of modules that may be imported.
CLOCKS = {"now", "today", "utcnow"}
#: The packages whose operations are pure.
PURE = ("core", "staging", "membership", "queue", "delay", "topic", "rsmq", "sharded")
#: Their files that are not: clients, connections, and what threads and tasks do differently.
RUNTIME = re.compile(r"(.*_)?(client|heartbeats|waiters|renewal|shards)(_async)?|__init__")
#: Private names of other libraries that have no public twin, and why they are used.
FOREIGN = {
    "_replace": "a documented method of named tuples",
    "_exit": "a documented function of os",
    "_getframe": "the drop-in looks at its caller's frame",
    "_current_frames": "the same, for other threads",
    "_get_running_loop": "raises nothing outside of a loop, and so is cheap at each pop",
    "_ensure_initialized": "PySpark gives no other way to start Java without a session",
    "_active_spark_context": "PySpark gives a thread no other way to see a running Spark",
    "_jvm": "PySpark gives no other way to Spark's Java classes",
    "_jsparkSession": "the same",
    "_jdf": "the same",
    "_jc": "the same, of a column",
    "_jsc": "the same, of a context",
    "_jo": "the same, of an observation, which cannot be asked otherwise without a wait",
}
ROOT = Path(ackq.__file__).parent


def test_imports_go_down_only() -> None:
    rank = {part: level for level, layer in enumerate(LAYERS) for part in layer}
    for path in _modules():
        part = _part(path)
        for imported in _imports(path):
            if not imported.startswith("ackq."):
                continue
            target = imported.split(".")[1]
            assert target == part or rank[target] < rank[part], (
                f"{path.relative_to(ROOT)} imports {imported}, which is not below it"
            )


def test_no_modules_import_one_another_in_a_circle() -> None:
    names = {_dotted(path) for path in _modules()}
    imports = {_dotted(path): names & {*_imports(path)} for path in _modules()}
    TopologicalSorter(imports).prepare()  # the error names the circle


def test_every_part_has_a_layer() -> None:
    known = {part for layer in LAYERS for part in layer}
    assert {_part(path) for path in _modules()} == known


def test_operations_read_no_clock_draw_nothing_and_open_nothing() -> None:
    operations = [path for path in _modules() if _part(path) in PURE and not _is_runtime(path)]
    assert len(operations) > 40
    for path in operations:
        touched = {imported.split(".")[0] for imported in _imports(path)} & IMPURE
        assert not touched, f"{path.relative_to(ROOT)} imports {touched}"
        for imported in _imports(path):
            if imported.startswith("redis"):
                assert imported.startswith("redis.exceptions"), f"{path.name} imports {imported}"
            assert not imported.startswith("ackq.core.io"), f"{path.name} imports {imported}"
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.Attribute) and node.attr in CLOCKS:
                read = ast.unparse(node.value)
                assert read not in ("date", "datetime"), f"{path.name}:{node.lineno} reads a clock"


def test_threads_and_tasks_do_not_know_each_other() -> None:
    names = {_dotted(path) for path in _modules()}
    twins = {name for name in names if f"{name}_async" in names}
    assert len(twins) > 10
    for path in _modules():
        if _part(path) not in PURE or path.stem == "__init__":
            continue
        for imported in _imports(path):
            if path.stem.endswith("_async"):
                assert imported not in twins, f"{_dotted(path)} imports {imported}"
            else:
                assert not imported.endswith("_async"), f"{_dotted(path)} imports {imported}"


def test_no_file_uses_the_private_parts_of_another() -> None:
    for path in _modules():
        tree = _tree(path)
        own = _private_names(tree) | FOREIGN.keys()
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and _is_private(node.attr):
                assert _is_own(node.value) or node.attr in own, (
                    f"{path.relative_to(ROOT)}:{node.lineno} uses {ast.unparse(node)}:"
                    " give what it needs a public name"
                )


def test_no_class_writes_the_private_attributes_of_a_base_in_another_package() -> None:
    classes = _classes()
    crossed = 0
    for (package, name), found in classes.items():
        for tree, scope in found:
            for other, base in _bases(package, tree, scope, classes):
                if other != package:
                    crossed += 1
                    both = _written(scope) & _written(base)
                    assert not both, f"{package}.{name} writes {both} of {other}.{base.name}"
    assert crossed > 20


Classes = dict[tuple[str, str], list[tuple[ast.Module, ast.ClassDef]]]


def _classes() -> Classes:
    """Return all classes, with their modules, by package and name."""
    found: Classes = {}
    for path in _modules():
        tree = _tree(path)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found.setdefault((_part(path), node.name), []).append((tree, node))
    return found


def _bases(
    package: str, tree: ast.Module, scope: ast.ClassDef, classes: Classes
) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the bases of a class, and theirs, that ackq defines, each after its package."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
    modules = {alias.name: f"{node.module}." for node in imports for alias in node.names}
    for each in scope.bases:
        name = ast.unparse(each).partition("[")[0]
        other = modules[name].split(".")[1] if name in modules else package
        for module, base in classes.get((other, name), ()):
            yield other, base
            yield from _bases(other, module, base, classes)


def _written(scope: ast.AST) -> set[str]:
    """Return the private attributes that a class or function writes, of itself or of others."""
    nodes = [node for node in ast.walk(scope) if isinstance(node, ast.Attribute)]
    return {node.attr for node in nodes if not isinstance(node.ctx, ast.Load)} - {
        node.attr for node in nodes if not _is_private(node.attr)
    }


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_own(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def _private_names(tree: ast.Module) -> set[str]:
    """Return the private attributes and methods that the classes of a module define.

    A protocol defines none: it only describes the classes of others.
    """
    found = set()
    for scope in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        if any(ast.unparse(base).startswith("Protocol") for base in scope.bases):
            continue
        for node in ast.walk(scope):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found |= {node.attr} if _is_own(node.value) else set()
    return set(filter(_is_private, found))


def _dotted(path: Path) -> str:
    return ".".join(("ackq", *path.relative_to(ROOT).with_suffix("").parts))


def _is_runtime(path: Path) -> bool:
    return path.parent.name == "io" or bool(RUNTIME.fullmatch(path.stem))


@functools.cache
def _modules() -> list[Path]:
    return [path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.stem[0] != "_"]


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _part(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


@functools.cache
def _imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            found.append(node.module or "")
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return [each for each in found if each != "ackq"]
