"""The past of queues, kept in Redis: what happened in each minute of a day.

Workers and whoever watches write it, so it is there when somebody arrives. One hash for each queue
holds all of it; `ackq.ops.chronicle.store` reads and writes the hash.
"""
