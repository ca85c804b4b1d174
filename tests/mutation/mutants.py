"""The mutants of the Python code."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.format_utils import (
    mangled_name_from_mutant_name,
    orig_function_and_class_names_from_key,
)

from .mutant import GENERATED, Mutant
from .places import ROOT, WORK, function_lines, places

#: The packages in order: first those where a wrong line could lose a message.
PACKAGES = (
    *("core", "core/io", "queue", "delay", "worker", "tasks", "dropin", "topic", "rsmq"),
    *("sharded", "membership", "staging", "spark"),
)
#: What runs in Spark's executors and is tested without a JVM; the rest of the package drives Spark.
EXECUTORS = (
    *("bulk_types", "columns", "heartbeat", "in_bulk", "options", "raw_options", "retry"),
    *("row_encoder", "rows", "shards", "sink_options", "sink_task", "to_json", "unconverted"),
    "values",
)


def mutants() -> list[Mutant]:
    """Return every mutant. It takes a minute or two after the code has changed."""
    return [
        mutant
        for package in PACKAGES
        for path in _files(package)
        for mutant in _of_file(path, package)
    ]


def _files(package: str) -> list[Path]:
    files = sorted((ROOT / "ackq" / package).glob("*.py"))
    if package == "spark":
        files = [path for path in files if path.stem in EXECUTORS]
    return [path for path in files if not path.read_text().startswith(GENERATED)]


def _of_file(path: Path, package: str) -> list[Mutant]:
    relative = path.relative_to(ROOT)
    code, names, spans = _mutated(relative, path.read_text())
    lines = code.splitlines()

    def source(variant: str, function: str) -> list[str]:
        start, end = spans[variant]
        return [
            line.replace(f"def {variant}(", f"def {function}(") for line in lines[start - 1 : end]
        ]

    found: list[Mutant] = []
    seen: dict[str, int] = {}
    for name in names:
        function, owner = orig_function_and_class_names_from_key(name)
        original = source(f"{mangled_name_from_mutant_name(name)}__mutmut_orig", function)
        mutant = source(name, function)
        first, before, after = _change(original, mutant)
        if _is_left_out(before, after):
            continue
        where = f"{relative}: {f'{owner}.{function}' if owner else function}"
        change = f"{where} {before} {after}"
        seen[change] = seen.get(change, 0) + 1
        place = _place(path, where, original, first)
        code = "\n".join(mutant)
        found.append(Mutant(package, where, before, after, seen[change], code, place))
    return found


def _place(path: Path, where: str, original: list[str], changed: int) -> str:
    name = where.partition(": ")[2]
    head = re.compile(rf"\s*(async )?def {name.rpartition('.')[2]}\(")
    line = function_lines(path)[name] + changed
    line -= next(at for at, text in enumerate(original) if head.match(text))
    return places(path).get(line, f"{where}+?")


def _mutated(path: Path, source: str) -> tuple[str, list[str], dict[str, tuple[int, int]]]:
    """Return mutmut's code, the mutants' names and where they are. It takes a second a file."""
    cache = WORK / "generated"
    kept = cache / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.json"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        made = mutate_file_contents(str(path), source)
        spans = {name: (at.start, at.end) for name, at in made.line_span_by_function_name.items()}
        kept.write_text(json.dumps([made.code, list(made.mutant_names), spans]))
    code, names, spans = json.loads(kept.read_text())
    return code, names, spans


def _change(original: list[str], mutant: list[str]) -> tuple[int, str, str]:
    """Return the first line that differs, and the lines that do in both."""
    pairs = zip(original, mutant, strict=False)
    first = next(at for at, (old, new) in enumerate(pairs) if old != new)
    pairs = zip(reversed(original[first:]), reversed(mutant[first:]), strict=False)
    same = next((at for at, (old, new) in enumerate(pairs) if old != new), 0)
    before, after = (
        " ".join(line.strip() for line in lines[first : len(lines) - same])
        for lines in (original, mutant)
    )
    return first, before, after


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
