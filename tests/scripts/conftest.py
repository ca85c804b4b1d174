"""The fixtures of this folder; tests/mutants has them too."""

from __future__ import annotations

from tests.scripts.fixtures import kind, own_client, own_space, scripts_directory, space

__all__ = ["kind", "own_client", "own_space", "scripts_directory", "space"]
