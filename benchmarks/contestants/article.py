"""The scripts of the article that ackq starts from, corrected only so far that they run."""

from __future__ import annotations

import time
from collections.abc import Iterable

import orjson

from benchmarks.contestants.base import Contestant, Messages

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
    """Push, pop and ack, a call each; the time is the client's."""

    def __init__(self, url: str, key: str, messages: Messages, batch: int) -> None:
        super().__init__(url, key, messages, batch)
        self._pop = self.client.register_script(POP)
        self._ack = self.client.register_script(ACK)

    def side_keys(self) -> Iterable[str]:
        return (self.key + "BACKUP", self.key + "CONTEXT")

    def cycle(self) -> int:
        self.client.lpush(self.key, orjson.dumps(self.messages.one()))
        body = self._pop(args=[self.key, int(time.time() * 1000), FAILED_AFTER])
        self._ack(args=[orjson.loads(body)["id"], self.key])
        return 1
