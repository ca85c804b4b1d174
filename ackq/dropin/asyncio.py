"""`redis.asyncio`'s own client, without losing popped messages.

::

    r = ackq.dropin.asyncio.Redis(redis.asyncio.Redis(), hold=0)   # was: r = redis.asyncio.Redis()
    while True:
        _, raw = await r.brpop("jobs")
        await work_on(raw)                         # kill -9 here: the message is redelivered
"""

from ackq.dropin.client_async import Redis

__all__ = ["Redis"]
