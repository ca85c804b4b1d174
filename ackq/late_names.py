"""Names of a package that are imported when a program first uses them (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package.

    Args:
        package: the name of the package.
        modules: the names that each of its modules has, separated by spaces.
    """
    found = {name: module for module, names in modules.items() for name in names.split()}
    known = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        known[name] = getattr(import_module(f"{package}.{found[name]}"), name)
        return known[name]

    return get, lambda: sorted({*known, *found})
