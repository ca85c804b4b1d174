"""redis-py's own client, without losing popped messages.

::

    r = ackq.dropin.Redis(redis.Redis(), hold=0)     # was: r = redis.Redis()
    while True:
        _, raw = r.brpop("jobs")
        work_on(raw)                                 # kill -9 here: the message is redelivered

`ackq.dropin.asyncio.Redis` does the same for `redis.asyncio`.
"""

from ackq.dropin.client import Redis
from ackq.dropin.errors import ListNameRefused, Refused
from ackq.dropin.reports import UnprotectedWarning

__all__ = ["ListNameRefused", "Redis", "Refused", "UnprotectedWarning"]
