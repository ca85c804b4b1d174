"""Rows that become visible with a commit, whatever product they are for."""
