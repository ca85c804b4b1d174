"""Quiet mutants: mistakes that change no result of an ordinary call, which mutmut does not make.

A lock is not taken, an error is caught that should pass, or passes that should be caught, a time
is ten times as long, a default differs, a pause is left out.
"""

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .mutant import GENERATED, Mutant
from .places import ROOT, Function, functions, places

KINDS = ("lock", "suppress", "except", "timeout", "default", "sleep")

#: Names that are given a lock.
_LOCK = re.compile(r"(\w+)(?:: .+)? = (?:\w+\.)?R?Lock\(")
_TIME = re.compile(r"timeout|interval|seconds", re.IGNORECASE)
#: How often something is done again is a matter of taste: it comes to the same, only later. Where
#: a page promises a time, tests/test_documented_times.py compares the two.
_PERIOD = re.compile(r"between two|the next|again")
#: Calls that raise one error for what they get here, and that error: catching more is no change.
_SURE = re.compile(
    r"(int|float|orjson\.\w+|urlsplit|asyncio\.current_task|.+\.(encode|decode|popleft|pop))"
    r" (ValueError|TypeError|IndexError|RuntimeError|Unicode..codeError|orjson\.JSONDecodeError)"
)
_PAUSE = re.compile(r"(await |\(?yield )?([\w.]*sleep|Sleep|[\w.]+\.wait)\(.+\)\)?")


def mutants() -> list[Mutant]:
    """Return every quiet mutant of the package."""
    # What Python runs as __main__ is no module to plant a mutant in.
    paths = (path for path in (ROOT / "ackq").rglob("*.py") if path.stem != "__main__")
    texts = {path: path.read_text() for path in sorted(paths)}
    locks = {name for text in texts.values() for name in _LOCK.findall(text)}
    written = {path: text for path, text in texts.items() if not text.startswith(GENERATED)}
    return [
        mutant
        for path, text in written.items()
        for mutant in (*_in_functions(path, text, locks), *_of_constants(path, text, texts))
    ]


def _in_functions(path: Path, text: str, locks: set[str]) -> Iterator[Mutant]:
    seen: Counter[str] = Counter()
    for name, function in functions(ast.parse(text)):
        where = f"{path.relative_to(ROOT)}: {name}"
        for at, kind, old, new in _changes(function, locks):
            code = ast.unparse(_changed(function, old, new))
            before, after = _text(old), _text(new)
            if kind == "except":
                before, after = f"except {before}", f"except {after}"
            seen[change := f"{where} {before} {after}"] += 1
            place = f"{where}+{at.lineno - function.lineno}" if at is not function else f"{where}+?"
            yield Mutant(kind, where, before, after, seen[change], code, place)


def _of_constants(path: Path, text: str, texts: dict[Path, str]) -> Iterator[Mutant]:
    """Yield the constants of a module that are times."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Constant(int() | float() as value)):
                about = name + lines[node.lineno - 2]
                if value and _TIME.search(about) and not _PERIOD.search(about):
                    where = f"{path.relative_to(ROOT)}: {name}"
                    before, after = f"{name} = {value}", f"{name} = {value * 10}"
                    uses = ", ".join(sorted(_uses(name, texts)))
                    yield Mutant("timeout", where, before, after, 1, after, uses)


def _uses(name: str, texts: dict[Path, str]) -> Iterator[str]:
    """Yield the places of the statements that use a constant."""
    for path, text in texts.items():
        if name in text:
            place_of = places(path)
            for number, line in enumerate(text.splitlines(), 1):
                if re.search(rf"\b{name}\b", line) and number in place_of:
                    yield place_of[number]


def _changes(
    function: Function, locks: set[str]
) -> Iterator[tuple[ast.stmt | ast.excepthandler, str, ast.AST, ast.AST | list[ast.stmt]]]:
    """Yield the statements of a function, the kind of a change, and the nodes to exchange."""
    for default in (*function.args.defaults, *function.args.kw_defaults):
        match default:
            case ast.Constant(value=bool(value)):
                yield function, "default", default, ast.Constant(not value)
            case ast.Constant(value=int() | float() as value):
                yield function, "default", default, ast.Constant(value * 10 or 1)
    sure: set[ast.AST] = set()
    for at in ast.walk(function):
        match at:
            case ast.With(items=[item]) | ast.AsyncWith(items=[item]):
                of = item.context_expr
                if ast.unparse(of).rpartition(".")[2] in locks:
                    yield at, "lock", at, at.body
                elif isinstance(of, ast.Call) and ast.unparse(of.func).endswith("suppress"):
                    yield at, "suppress", at, at.body
                    for fewer in _fewer(of.args):
                        yield at, "suppress", of, ast.Call(of.func, fewer, [])
            case ast.Try(body, handlers):
                sure.update(each for each in handlers if _is_sure(body, each.type))
            case ast.ExceptHandler(type=ast.expr() as caught):
                errors = caught.elts if isinstance(caught, ast.Tuple) else []
                for fewer in [*_fewer(errors)] or [[]]:
                    yield at, "except", caught, ast.Tuple(fewer, ast.Load())
                names = ast.unparse(caught)
                if names != "BaseException" and at not in sure:
                    wider = "BaseException" if names == "Exception" else "Exception"
                    yield at, "except", caught, ast.Name(wider)
            case ast.Expr() if _PAUSE.fullmatch(ast.unparse(at)):
                yield at, "sleep", at, [ast.Pass()]
            case ast.stmt():
                for call in _calls(at):
                    for given in call.keywords:
                        match given:
                            case ast.keyword(str(name), ast.Constant(int() | float() as value)):
                                if _TIME.search(name):
                                    yield at, "timeout", given.value, ast.Constant(value * 10)


def _is_sure(body: list[ast.stmt], caught: ast.expr | None) -> bool:
    """Return whether statements, if they raise anything, raise the error that is caught."""
    nodes = [node for each in body for node in ast.walk(each)]
    calls = [node for node in nodes if isinstance(node, ast.Call | ast.Yield | ast.YieldFrom)]
    names = [ast.unparse(getattr(call, "func", call)) for call in calls]
    return len(names) == 1 and bool(_SURE.fullmatch(f"{names[0]} {caught and ast.unparse(caught)}"))


def _calls(statement: ast.stmt) -> Iterator[ast.Call]:
    """Yield the calls of a statement, without those of statements in it."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr | ast.withitem):
            yield from (node for node in ast.walk(child) if isinstance(node, ast.Call))


def _fewer(errors: list[ast.expr]) -> Iterator[list[ast.expr]]:
    """Yield the errors without each one of several."""
    for at in range(len(errors) if len(errors) > 1 else 0):
        yield [*errors[:at], *errors[at + 1 :]]


def _changed(function: Function, old: ast.AST, new: ast.AST | list[ast.stmt]) -> ast.AST:
    copies: dict[int, Any] = {}
    copied = copy.deepcopy(function, copies)

    class Change(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return new if node is copies[id(old)] else self.generic_visit(node)

    changed: ast.AST = Change().visit(copied)
    return changed


def _text(node: ast.AST | list[ast.stmt]) -> str:
    first = node[0] if isinstance(node, list) else node
    return ast.unparse(first).partition("\n")[0]
