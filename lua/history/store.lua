-- store: write the record of a queue's past, unless somebody else has written it since it was read.
--
-- KEYS[1] {name}:history:list  HASH  the queue's minutes and causes, see docs/web.md; expires
--
-- ARGV[1] before           0..64 bytes                what field v held when the caller read it
-- ARGV[2] version          1..64 bytes                unlike any other; becomes field v
-- ARGV[3] lifetime         integer 1000..604800000    ms that the record lasts without another call
-- ARGV[4...] field, value  text                       up to 64 pairs; an empty value deletes
--
-- Returns 1 if it was written, also if an earlier call with this version has written it; else 0:
-- read it again.
-- Atomic because what several clients add to the same minute would otherwise be lost.
-- Cost: O(pairs), 512 KiB of values.
-- Roles: worker, watcher, viewer, operator
local history = KEYS[1]
local before, version, lifetime = ARGV[1], ARGV[2], tonumber(ARGV[3])

local BYTES = 524288

-- include: outside

local bytes = 0
for i = 4, #ARGV do
  bytes = bytes + #ARGV[i]
end
if outside(lifetime, 1000, 604800000) or #before > 64 or #version < 1 or #version > 64
  or #ARGV % 2 == 0 or #ARGV > 131 or bytes > BYTES then
  return redis.error_reply('ACKQ_ARGUMENT history/store: an argument is out of range')
end

local stored = redis.call('HGET', history, 'v') or ''
if stored == version then
  return 1
end
if stored ~= before then
  return 0
end
local written, deleted = { 'v', version }, {}
for i = 4, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    table.insert(deleted, ARGV[i])
  else
    table.insert(written, ARGV[i])
    table.insert(written, ARGV[i + 1])
  end
end
if #deleted > 0 then
  redis.call('HDEL', history, unpack(deleted))
end
redis.call('HSET', history, unpack(written))
redis.call('PEXPIRE', history, string.format('%.0f', lifetime))
return 1
