"""What a new user has: the built wheel in a fresh environment, and an empty home."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Environments:
    """Environments that have the wheel, one for each list of packages."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, ROOT)
        (self._wheel,) = folder.glob("*.whl")
        self._made: dict[tuple[str, ...], Path] = {}

    def __call__(self, extras: str, *others: str) -> Path:
        """Return the folder with the commands of such an environment."""
        commands = self._made.get((extras, *others))
        if commands is None:
            home = self._folder / str(len(self._made))
            run(sys.executable, "-m", "venv", home)
            commands = self._made[extras, *others] = home / "bin"
            run(commands / "pip", "install", "--quiet", f"{self._wheel}[{extras}]", *others)
        return commands


@contextmanager
def user(commands: Path, folder: Path) -> Iterator[dict[str, str]]:
    """Yield the variables of a user with an empty home; stop the server that commands started."""
    variables = {
        "HOME": str(folder),
        "PATH": f"{commands}:{os.environ['PATH']}",
        "ACKQ_HOME": str(folder / "data"),
    }
    try:
        yield variables
    finally:
        run(commands / "ackq", "serve", "--stop", env=variables)


def run(*command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run a command, and return what it prints."""
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
