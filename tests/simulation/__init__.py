"""Deterministic simulation: ackq's asyncio clients in virtual time, with a fault at any request.

Simulated processes are coroutines that use ackq's clients. Each of their requests is one step on
a real redis-server, whose clock stands still at the simulated time. A seed decides everything: what
the processes do, how long each request and reply take, and which faults strike. So the same seed
writes the same history, byte for byte. The checker of `tests.histories` judges it.
"""
