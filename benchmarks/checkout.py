"""Which code is measured, where it is a git checkout: the version alone stands for months of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def commit(root: Path = ROOT) -> str | None:
    """Return the commit's short hash, with a + if files differ from it; None if there is none.

    Files that git does not know are no difference: results are written beside the code.
    """
    # A checkout of its own, not a copy within another project's.
    if not (root / ".git").exists():
        return None
    # No lock: somebody may be committing.
    command = ["git", "--no-optional-locks", "status", "--porcelain=v2", "--branch",
               "--untracked-files=no"]  # fmt: skip
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    lines = done.stdout.splitlines()
    (oid,) = (line.split()[2] for line in lines if line.startswith("# branch.oid "))
    return oid[:7] + "+" * any(not line.startswith("#") for line in lines)
