"""The pure half of ackq: arguments to requests, replies to values.

Nothing here reads a clock, a socket or the environment. An operation is a generator that yields
what it needs (see `ackq.protocol.steps`) and is sent the answer; `ackq.sync` and `ackq.aio` each
have a small driver that runs it.
"""
