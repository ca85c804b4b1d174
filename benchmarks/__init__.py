"""Measurements that anyone can repeat from a checkout; see README.md."""
