"""Spark: source, sink and pipeline."""
