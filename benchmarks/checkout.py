"""Identify the measured code in a git checkout. A version alone covers months of changes."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def commit(root: Path = ROOT) -> str | None:
    """Return the commit's short hash, with a + if files differ from it; None without a commit.

    Untracked files do not count: results are written beside the code.
    """
    # Only its own checkout counts, not a copy inside another project's.
    if not (root / ".git").exists():
        return None
    # Take no lock: a commit may be in progress.
    command = [
        "git",
        "--no-optional-locks",
        "status",
        "--porcelain=v2",
        "--branch",
        "--untracked-files=no",
    ]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    lines = done.stdout.splitlines()
    (oid,) = (line.split()[2] for line in lines if line.startswith("# branch.oid "))
    return oid[:7] + "+" * any(not line.startswith("#") for line in lines)
