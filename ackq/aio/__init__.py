"""The asyncio face: `AsyncQueue`, over `redis.asyncio.Redis` and its kin."""
