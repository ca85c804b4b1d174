"""Rows that become visible with a commit, for any product."""
