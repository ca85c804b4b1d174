"""The command ``ackq``: ends quietly if Ctrl-C comes while its modules are loaded."""

from __future__ import annotations


def main() -> None:
    """Run the command."""
    try:
        from ackq.cli import main as command
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    command()
