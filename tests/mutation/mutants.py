"""The mutants of the Python code, and the tree of files that contains them."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.format_utils import (
    get_mutant_name,
    mangled_name_from_mutant_name,
    orig_function_and_class_names_from_key,
)

ROOT = Path(__file__).parents[2]
#: What the tests need of the repository.
COPIED = (
    "ackq", "lua", "tests", "docs", "benchmarks", "tools", "pyproject.toml", "pyspark_ackq.py",
    "README.md", "CHANGELOG.md", "LICENSE", "Makefile",
)  # fmt: skip
#: The packages in order: first those where a wrong line could lose a message.
PACKAGES = (
    "core", "core/io", "queue", "delay", "worker", "dropin", "topic", "rsmq", "sharded",
    "membership", "staging", "spark",
)  # fmt: skip
#: What runs in Spark's executors and is tested without a JVM; the rest of the package drives Spark.
EXECUTORS = (
    "bulk_types", "columns", "heartbeat", "in_bulk", "options", "raw_options", "retry",
    "row_encoder", "rows", "shards", "sink_options", "sink_task", "to_json", "unconverted",
    "values",
)  # fmt: skip
#: The first line of a generated blocking client; its asyncio twin is mutated.
GENERATED = "# Written by tools/blocking.py"


@dataclass(frozen=True)
class Mutant:
    """One change in one function."""

    name: str  #: mutmut's; the number at its end changes with the code
    package: str
    function: str  #: such as "ackq/delay/take.py: take"
    before: str
    after: str
    occurrence: int  #: of the same change in the function
    source: str  #: the hash of the function's source

    @property
    def key(self) -> str:
        """What the mutant is, whatever else changes in its file."""
        number = f" #{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.function}: {self.before} -> {self.after}{number}"

    @property
    def called(self) -> str:
        """The function, as the switches record it."""
        return mangled_name_from_mutant_name(self.name)


def plant(tree: Path) -> list[Mutant]:
    """Write the tree, with every mutant in it, and return them.

    Files that have not changed stay as they are, and so does what Python has compiled of them.
    """
    mutants: list[Mutant] = []
    made: dict[Path, bytes] = {}
    for package in PACKAGES:
        for path in _files(package):
            code, found = _mutate(path, package, tree.parent / "generated")
            made[path] = code.encode()
            mutants += found
    kept = set()
    for name in COPIED:
        for path in [ROOT / name, *(ROOT / name).rglob("*")]:
            if path.is_file() and not {"__pycache__", "_build"} & set(path.parts):
                copy = tree / path.relative_to(ROOT)
                kept.add(copy)
                _put(copy, made[path] if path in made else path.read_bytes())
    for path in tree.rglob("*"):
        if path.is_file() and path not in kept and "__pycache__" not in path.parts:
            path.unlink()
    return mutants


def _put(path: Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _files(package: str) -> list[Path]:
    files = sorted((ROOT / "ackq" / package).glob("*.py"))
    if package == "spark":
        files = [path for path in files if path.stem in EXECUTORS]
    return [path for path in files if not path.read_text().startswith(GENERATED)]


def _mutate(path: Path, package: str, cache: Path) -> tuple[str, list[Mutant]]:
    relative = path.relative_to(ROOT)
    code, names, spans = _mutated(relative, path.read_text(), cache)
    lines = code.splitlines()

    def body(name: str) -> list[str]:
        start, end = spans[name]
        return [line.strip().replace(f"def {name}(", "def (") for line in lines[start - 1 : end]]

    found: list[Mutant] = []
    seen: dict[str, int] = {}
    for mutant_name in names:
        name = get_mutant_name(relative, mutant_name)
        original = body(f"{mangled_name_from_mutant_name(mutant_name)}__mutmut_orig")
        before, after = _change(original, body(mutant_name))
        if _is_left_out(before, after):
            continue
        function, owner = orig_function_and_class_names_from_key(name)
        where = f"{relative}: {f'{owner}.{function}' if owner else function}"
        change = f"{where} {before} {after}"
        seen[change] = seen.get(change, 0) + 1
        source = hashlib.sha256("\n".join(original).encode()).hexdigest()[:12]
        found.append(Mutant(name, package, where, before, after, seen[change], source))
    return code, found


def _mutated(
    path: Path, source: str, cache: Path
) -> tuple[str, list[str], dict[str, tuple[int, int]]]:
    """Return mutmut's code, the mutants' names and where they are. It takes a second a file."""
    kept = cache / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.json"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        made = mutate_file_contents(str(path), source)
        spans = {name: (at.start, at.end) for name, at in made.line_span_by_function_name.items()}
        kept.write_text(json.dumps([made.code, list(made.mutant_names), spans]))
    code, names, spans = json.loads(kept.read_text())
    return code, names, spans


def _change(original: list[str], mutant: list[str]) -> tuple[str, str]:
    before, after = [], []
    for line in difflib.ndiff(original, mutant):
        if line.startswith("- "):
            before.append(line[2:])
        elif line.startswith("+ "):
            after.append(line[2:])
    return " ".join(before), " ".join(after)


def _is_left_out(before: str, after: str) -> bool:
    """Return whether a mutant says nothing about the tests.

    Left out are the words of texts for people, the type of a ``cast``, and arguments that are
    removed: mostly a `TypeError`, and a mutant that passes None instead exists too.
    """
    same_words = _without_texts(before) == _without_texts(after)
    wording = same_words and before.lower() == after.lower().replace("xx", "")
    logged = before.lstrip().startswith("_LOG.")
    named = _CHECK.sub(r"\1", before) == _CHECK.sub(r"\1", after)
    cast = re.sub(r"cast\(.*?, ", "cast(", before) == re.sub(r"cast\(.*?, ", "cast(", after)
    return wording or logged or named or cast or _is_removal(before, after)


#: The name of an argument, which a check puts into its error.
_CHECK = re.compile(r"""\b((?:check_\w+|microseconds)\([^"]*?, )(?:"[^"]*"|None)""")


def _without_texts(code: str) -> str:
    return re.sub(r"""(['"])[^'"]* [^'"]*\1""", "''", code)


def _is_removal(before: str, after: str) -> bool:
    if after.count(",") < before.count(",") and len(after) < len(before):
        return True
    return after.count(", )") > before.count(", )") or after.count(",)") > before.count(",)")
