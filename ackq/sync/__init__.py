"""The blocking face: `Queue`, over `redis.Redis` and its kin."""
