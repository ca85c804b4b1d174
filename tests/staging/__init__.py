"""Rows that are staged, and committed once."""
