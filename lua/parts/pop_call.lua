-- include: outside
-- Needs wanted, timeout, jitter, max_receives, max_body, waited.

local SCRIPT = 'pop' -- in errors
local BODY_BUDGET = 1048576 -- bytes of bodies one call may move
local SLICE = 16 -- bodies of a list read at a time, as long as those before were short
local SHORT = 4096 -- bytes
local DEAD_LETTER_BUDGET = 100 -- dead letters written in one call
local SWEPT = 100 -- counts, notes and slots that one call looks at, whose messages may be gone
local SAMPLED = 64 -- one in this many usual calls counts the length of its leases

if outside(wanted, 1, 1000) or outside(timeout, 1, 43200000000) or outside(jitter, 0, 65535)
  or outside(max_receives, 0, 1000000) or outside(max_body, 1, 536870912)
  or outside(waited, -1, 9007199254740991) then
  return redis.error_reply('ACKQ_ARGUMENT pop: an argument is out of range; see its header')
end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local now_text = clock[1] .. string.sub('00000' .. clock[2], -6)
local deadline = now + timeout + jitter
local is_waiting = waited >= 0
local lease = string.format('%.0f', deadline)
