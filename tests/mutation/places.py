"""Where a line of ackq is: its function, and its statement there."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[2]
#: Where runs keep their files.
WORK = ROOT / ".mutation"

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def places(path: Path) -> dict[int, str]:
    """Return the place of each line, such as "ackq/delay/take.py: take+12"."""
    found = {}
    for name, function in functions(ast.parse(path.read_text())):
        begin = function.body[0].lineno
        for node in ast.walk(function):
            if isinstance(node, ast.stmt | ast.excepthandler):
                first = node.lineno
                for line in range(first, _last_line(node) + 1):
                    if line >= begin:
                        offset = first - function.lineno
                        found[line] = f"{path.relative_to(ROOT)}: {name}+{offset}"
    return found


@functools.cache
def statements(path: Path) -> dict[str, list[int]]:
    """Return where the statements of each function and method begin, counted from its ``def``."""
    return {
        name: [
            node.lineno - function.lineno
            for node in ast.walk(function)
            if isinstance(node, ast.stmt | ast.excepthandler)
        ]
        for name, function in functions(ast.parse(path.read_text()))
    }


@functools.cache
def function_places(path: Path, line: int) -> set[str]:
    """Return the places of all statements of the function or method that has this line."""
    for name, each in functions(ast.parse(path.read_text())):
        first = min(part.lineno for part in (each, *each.decorator_list))
        if first <= line <= (each.end_lineno or line):
            where = f"{path.relative_to(ROOT)}: {name}"
            return {f"{where}+{offset}" for offset in statements(path)[name]}
    return set()


@functools.cache
def function_lines(path: Path) -> dict[str, int]:
    """Return the line of the ``def`` of each function and method."""
    return {name: each.lineno for name, each in functions(ast.parse(path.read_text()))}


def _last_line(node: ast.stmt | ast.excepthandler) -> int:
    """Return where a simple statement ends, or what stands before the body of a compound one."""
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    if not body:
        return node.end_lineno or node.lineno
    first = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
    return max(node.lineno, first.lineno - 1)


def functions(module: ast.Module) -> Iterator[tuple[str, Function]]:
    for node in module.body:
        if isinstance(node, Function):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, Function):
                    yield f"{node.name}.{each.name}", each
