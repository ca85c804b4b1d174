"""Measure a queue on a server: the part of the benchmarks that is in the package.

``ackq bench`` measures your own server. ``python -m benchmarks``, from a checkout, builds on this
package and compares ackq with other queues.
"""
