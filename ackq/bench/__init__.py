"""Measure a queue on a server: the part of the benchmarks that ships.

``ackq bench`` runs it against a server of yours; ``python -m benchmarks``, from a checkout, builds
on it and compares with others.
"""
