"""Valkey: the bundled server; a cluster, and a primary with its replica and Sentinel."""

from . import cluster, sentinel
from .binaries import bundled_valkey, valkey_server
from .process import plain
from .target import Offer


def offer() -> Offer:
    return plain("valkey", bundled_valkey())


def cluster_offer() -> Offer:
    return cluster.offer_of("valkey-cluster", valkey_server())


def sentinel_offer() -> Offer:
    return sentinel.offer_of("valkey-sentinel", valkey_server())
