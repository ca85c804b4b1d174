"""The drop-in, which settles what a thread popped when it pops again."""

import random
from typing import Any, ClassVar

from ackq.dropin import Redis
from tests.campaign.site import Site
from tests.products import LEASE, value
from tests.products.bodies import checksum, id_of
from tests.products.loops import PAUSE, Loop

from .listed import ListRig
from .rig import Role, Workload


class DropInRig(ListRig):
    """Consumers are loops over ``rpop``. Their leases are renewed, so none ends while they work."""

    rules: ClassVar[dict[str, Any]] = {}

    def __init__(self, site: Site, workload: Workload) -> None:
        super().__init__(site, workload)
        self._redis: Any
        if workload.asynchronous:
            # The release before, which tests/compatibility runs, may not have it.
            from ackq.dropin import asyncio

            self._redis = asyncio.Redis(site.async_client(), visibility_timeout=LEASE, hold=0)
        else:
            self._redis = Redis(site.client(), visibility_timeout=LEASE, hold=0)

    async def serve(self, role: Role) -> None:
        log = role.log

        async def pop_and_work(by: str, draw: random.Random) -> None:
            loop = Loop(self, self.habits, log, by, draw)
            tokens: list[int] = []
            while not role.is_over():
                call = log.begin("ack", of=tokens)
                begin = log.now()
                found = await loop.outcome(self._pop(draw.choice(self.workload.batches)))
                log.end(call, "unknown")
                bodies = found.result or []
                got = [[id_of(body), checksum(body), None, None] for body in bodies]
                first = log.took(got, by=by, begin=begin) if got else 0
                tokens = [*range(first, first + len(got))]
                if found.state != "ok" or not bodies:
                    await self.sleep(PAUSE)
                elif draw.random() < self.workload.straddling:
                    await self.sleep(LEASE * draw.uniform(0.7, 2.7))
            log.begin("ack", of=tokens)  # the end of its thread settles them, or `close`

        await self.crews(role, pop_and_work)

    async def _pop(self, n: int) -> Any:
        return await value(self._redis.rpop(self.site.name, n))

    async def close(self) -> None:
        await value(self._redis.aclose() if self.workload.asynchronous else self._redis.close())
        await super().close()
