"""Imports go down only, so that a change has one place and the protocol stays pure."""

from __future__ import annotations

import ast
from pathlib import Path

import ackq

#: From the bottom up. A module may import from its own layer's files and from layers below.
LAYERS = (
    ("errors", "escaping"),
    ("message", "config", "keys"),  # plain values, which may name each other
    ("scripts", "embedded"),
    ("protocol",),
    ("sync", "aio"),
    ("worker",),
    ("dropin", "move", "rsmq", "topic", "delay", "sharded", "bench"),
    ("demo",),
    ("spark",),
    ("cli",),
)
#: What the protocol may not touch: it would no longer be the same for both faces.
IMPURE = {"asyncio", "os", "select", "socket", "ssl", "subprocess", "threading", "time"}
ROOT = Path(ackq.__file__).parent


def test_imports_go_down_only() -> None:
    rank = {part: level for level, layer in enumerate(LAYERS) for part in layer}
    for path in _modules():
        part = _part(path)
        for imported in _imports(path):
            if not imported.startswith("ackq."):
                continue
            target = imported.split(".")[1]
            assert target == part or rank[target] < rank[part] or rank[part] == 1, (
                f"{path.relative_to(ROOT)} imports {imported}, which is not below it"
            )


def test_every_part_has_a_layer() -> None:
    known = {part for layer in LAYERS for part in layer}
    assert {_part(path) for path in _modules()} <= known


def test_the_protocol_reads_no_clock_and_opens_nothing() -> None:
    for path in (ROOT / "protocol").rglob("*.py"):
        touched = {imported.split(".")[0] for imported in _imports(path)} & IMPURE
        assert not touched, f"{path.name} imports {touched}"
        for imported in _imports(path):
            if imported.startswith("redis"):
                assert imported.startswith("redis.exceptions"), f"{path.name} imports {imported}"


def test_sync_and_aio_do_not_know_each_other() -> None:
    for one, other in (("sync", "aio"), ("aio", "sync")):
        for path in (ROOT / one).rglob("*.py"):
            assert not any(each.startswith(f"ackq.{other}") for each in _imports(path))


def _modules() -> list[Path]:
    return [path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.stem[0] != "_"]


def _part(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def _imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            found.append(node.module or "")
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return [each for each in found if each != "ackq"]
