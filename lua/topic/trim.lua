-- topic/trim: delete the oldest messages until keep are left.
--
-- KEYS[1] {name}:nextIndex   STRING  the newest index; absent: 0
-- KEYS[2] {name}:firstIndex  STRING  indexes below it were trimmed by count; absent: 1
-- KEYS[3..] {name}:messages:<index>  STRING  messages, upwards from oldest; may be absent
--
-- ARGV[1] keep    integer 0..2^53-1  messages that stay
-- ARGV[2] oldest  integer 1..2^53-1  index of the first message that was passed
--
-- Returns {newest, first, deleted}: call again while first <= newest - keep.
-- Atomic because firstIndex must never be above an existing message.
-- Cost: O(keys), at most 1000; Redis frees the messages at once, so at most 8 MiB plus one message.
-- Roles: operator
local next_index, first_index = KEYS[1], KEYS[2]
local keep, oldest = tonumber(ARGV[1]), tonumber(ARGV[2])
local HEAD = 2 -- keys before the messages
local FREED = 8388608 -- bytes of messages one call may delete
local LAST = 9007199254740991 -- the greatest index that a Lua number holds exactly

-- include: outside

if outside(keep, 0, LAST) or outside(oldest, 1, LAST) or #KEYS > HEAD + 1000 then
  return redis.error_reply('ACKQ_ARGUMENT topic/trim: an argument is out of range; see'
    .. ' topic/trim.lua')
end

-- Check every type before the first write, so that an error means that nothing was done.
local newest = tonumber(redis.call('GET', next_index) or 0)
local first = tonumber(redis.call('GET', first_index) or 1)
if outside(newest, 0, LAST) or outside(first, 1, LAST) then
  return redis.error_reply('ACKQ_VALUE topic/trim: nextIndex or firstIndex is no index')
end
if first > newest + 1 then
  first = 1 -- somebody started the topic again
end

local deleted = 0
local last = math.min(newest - keep, oldest + #KEYS - HEAD - 1)
if oldest <= first and last >= first then
  local stop, freed = first - 1, 0
  while stop < last and freed < FREED do
    stop = stop + 1
    -- A value that is no string has no length; it is deleted like the rest.
    freed = freed + (tonumber(redis.pcall('STRLEN', KEYS[HEAD + 1 + stop - oldest])) or 0)
  end
  last = stop
  deleted = redis.call('UNLINK', unpack(KEYS, HEAD + 1 + first - oldest, HEAD + 1 + last - oldest))
  first = last + 1
  redis.call('SET', first_index, string.format('%.0f', first))
end
return {newest, first, deleted}
