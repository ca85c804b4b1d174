"""A Spark home from which Python processes start faster."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from ackq.embedded import data_folder

#: What Spark needs of a home, with the user's settings. Its ``python`` folder is left out.
_PARTS = ("bin", "conf", "jars")
#: The variables that name Spark's interpreters.
_PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def choose_home(master: str) -> None:
    """Set SPARK_HOME to `home_without_archives` if Spark runs here and with this Python only.

    A SPARK_HOME that is set already is kept. None is set if no folder can be made.
    """
    pythons = {os.environ.get(name, sys.executable) for name in _PYTHONS}
    is_local = master.partition("[")[0] == "local"
    if is_local and pythons == {sys.executable} and "SPARK_HOME" not in os.environ:
        with suppress(OSError):
            os.environ["SPARK_HOME"] = str(home_without_archives())


def home_without_archives() -> Path:
    """Return a folder with links to PySpark's own home, but without its zip files of Python.

    If they are there, every Python process of Spark imports PySpark from them. It compiles PySpark
    each time, since Python keeps nothing that it has compiled from a zip file. Without them, these
    processes import the installed PySpark.
    """
    import pyspark

    installed = Path(pyspark.__file__).parent
    # One folder for each PySpark, since processes may use different ones.
    home = data_folder() / "spark" / sha256(str(installed).encode()).hexdigest()[:12]
    home.mkdir(parents=True, exist_ok=True)
    for part in _PARTS:
        if (installed / part).exists() and not (home / part).exists():
            _link(home / part, installed / part)
    return home


def _link(path: Path, target: Path) -> None:
    """Make a link, or replace one; another process may do so at the same time."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)  # of a process that was killed here
    draft.symlink_to(target)
    draft.replace(path)
