"""A meter for scripts: how many bytes a call reads, and in how large a piece."""

from collections.abc import Sequence
from typing import Any, NamedTuple

_BEFORE = """
local total, largest, real = 0, 0, redis
local function weigh(value)
  local sum = type(value) == 'string' and #value or 0
  for _, each in pairs(type(value) == 'table' and value or {}) do
    sum = sum + weigh(each)
  end
  return sum
end
local redis = setmetatable({}, {__index = real})
local function weighed(reply)
  local size = weigh(reply)
  total, largest = total + size, math.max(largest, size)
  return reply
end
function redis.call(...)
  return weighed(real.call(...))
end
function redis.pcall(...)
  return weighed(real.pcall(...))
end
"""
_BEHIND = """
local reply = script()
return {total, largest, reply}
"""


class Metered(NamedTuple):
    """What a call read from the server, and what it returned."""

    total: int  #: bytes
    largest: int  #: bytes that one command returned
    reply: Any


def metered(text: str) -> str:
    """Return a script that returns the bytes it read, the most that one command returned, and
    then what it would have returned."""
    return f"{_BEFORE}\nlocal function script()\n{text}\nend\n{_BEHIND}"


def call(client: Any, text: str, keys: Sequence[Any], *args: Any) -> Metered:
    """Call a script, and weigh what it reads."""
    return Metered(*client.eval(metered(text), len(keys), *keys, *args))
