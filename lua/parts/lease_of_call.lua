-- Needs timeout, jitter, waited, in µs.

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local now_text = clock[1] .. string.sub('00000' .. clock[2], -6)
local deadline = now + timeout + jitter
local is_waiting = waited >= 0
local lease = string.format('%.0f', deadline)
