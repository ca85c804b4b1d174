"""Queues with groups."""
