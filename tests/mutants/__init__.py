"""Planted mistakes in the scripts, each of which a named test must notice."""
