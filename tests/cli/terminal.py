"""Commands in a real terminal: a pty of a given width."""

import json
import os
import pty
import re
import sys
from collections.abc import Mapping, Sequence

from tests import forked

CODE = "from ackq.cli import main; main()"
#: What stands between the output of two commands.
NEXT = "---- next ----"
#: Runs several commands in one process, which saves starting one for each.
SEVERAL = f"""
import json, sys
import click
from ackq.cli import main
for args in json.loads(sys.argv[1]):
    try:
        main(args, standalone_mode=False)
    except click.exceptions.Exit as end:
        code = end.exit_code
    print({NEXT!r})
"""


def shown(*args: str, columns: int, code: int = 0, **environment: str) -> str:
    """Return the output of a command in a terminal of this width."""
    return in_terminal([sys.executable, "-c", CODE, *args], columns, code, environment)


def shown_of_all(commands: Sequence[Sequence[str]], columns: int, **environment: str) -> list[str]:
    """Return the output of each of several commands in a terminal of this width."""
    run = [sys.executable, "-c", SEVERAL, json.dumps(commands)]
    return in_terminal(run, columns, environment=environment).split(f"{NEXT}\r\n")[:-1]


def in_terminal(
    command: Sequence[str],
    columns: int,
    code: int = 0,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Return the output of a process in a terminal, and check its exit code."""
    parent, child = pty.openpty()
    settings = {"COLUMNS": str(columns), "TERM": "xterm-256color", **(environment or {})}
    process = forked.Popen(command, stdout=child, stderr=child, env={**os.environ, **settings})
    os.close(child)
    output = b""
    try:
        while read := os.read(parent, 65536):
            output += read
    except OSError:
        pass  # Linux says so when the other end is closed
    os.close(parent)
    assert process.wait(20) == code, output
    return output.decode(errors="surrogateescape")


def plain(text: str) -> list[str]:
    """Return the lines without codes for styles and the cursor."""
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", text).splitlines()
