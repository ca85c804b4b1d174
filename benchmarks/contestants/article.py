"""The pop and ack scripts of "Explain how redis implements ack for queue messages" (2019-10-9).

ackq's queue starts from this article. Its keys and logic are kept; only the errors that stop the
scripts from running are corrected.
"""

import time
from collections.abc import Iterable

import orjson
import redis

from ackq.bench.contestants import Contestant
from ackq.bench.messages import Messages

POP = """
local not_empty = function(x)
  return (type(x) == 'table') and (not x.err) and (#x ~= 0)
end
local qName = ARGV[1]
local currentTime = ARGV[2]
local considerAsFailMaxTimeSpan = ARGV[3]
local zsetName = qName .. 'BACKUP'
local hashName = qName .. 'CONTEXT'
local tmp = redis.call('ZRANGEBYSCORE', zsetName, '-INF',
  tonumber(currentTime) - tonumber(considerAsFailMaxTimeSpan), 'LIMIT', 0, 1)
if (not_empty(tmp)) then
  redis.call('ZREM', zsetName, tmp[1])
  redis.call('LPUSH', qName, redis.call('HGET', hashName, tmp[1]))
end
tmp = redis.call('RPOP', qName)
if (tmp) then
  local msg = cjson.decode(tmp)
  local id = msg['id']
  redis.call('ZADD', zsetName, tonumber(currentTime), id)
  redis.call('HSET', hashName, id, tmp)
end
return tmp
"""

ACK = """
local key = ARGV[1]
local qName = ARGV[2]
redis.call('ZREM', qName .. 'BACKUP', key)
redis.call('HDEL', qName .. 'CONTEXT', key)
"""

#: Milliseconds after which a message counts as failed.
FAILED_AFTER = 30_000


class Article(Contestant):
    """The acks travel with the next pops in one pipeline. The client's clock is used."""

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        self._pop = str(self.client.script_load(POP))
        self._ack = str(self.client.script_load(ACK))
        self._taken: list[str] = []

    def side_keys(self) -> Iterable[str]:
        return (self.key + "BACKUP", self.key + "CONTEXT")

    def hold(self, messages: Messages, count: int) -> bool:
        self._push(messages, count)
        self._take(count)
        self._taken = []
        return True

    def cycle(self) -> int:
        self._push(self.messages, self.batch)
        return self._take(self.batch)

    def _push(self, messages: Messages, count: int) -> None:
        self.client.lpush(self.key, *map(orjson.dumps, messages.many(count)))

    def _take(self, count: int) -> int:
        now = int(time.time() * 1000)
        pipeline: redis.client.Pipeline = self.client.pipeline(transaction=False)
        for name in self._taken:
            pipeline.evalsha(self._ack, 0, name, self.key)
        for _ in range(count):
            pipeline.evalsha(self._pop, 0, self.key, now, FAILED_AFTER)
        bodies = pipeline.execute()[len(self._taken) :]
        self._taken = [orjson.loads(body)["id"] for body in bodies if body is not None]
        return len(self._taken)
