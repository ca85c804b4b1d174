"""Bodies in formats other than JSON."""
