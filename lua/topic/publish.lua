-- topic/publish: store messages under the next indexes, all or none.
--
-- KEYS[1] {name}:nextIndex       STRING  the newest index; absent: 0
-- KEYS[2] {name}:firstIndex      STRING  indexes below it were trimmed by count; absent: 1
-- KEYS[3] {name}:wake            STREAM  a few entries; the last id is the newest index
-- KEYS[4] {name}:dedup:<marker>  STRING  index of an idempotent publish; else an empty marker
-- KEYS[5..4+trims] {name}:messages:<index>  STRING  old messages, upwards from oldest
-- KEYS[5+trims..]  {name}:messages:<index>  STRING  new messages, upwards from guess + 1
--
-- ARGV[1] guess    integer 0..2^53-1         the newest index that the caller knows of
-- ARGV[2] max_age  integer 0..315360000000   ms until the messages expire; 0: never
-- ARGV[3] keep     integer 0..2^53-1         messages that stay when older are trimmed; 0: all
-- ARGV[4] trims    integer 0..4000           how many keys of old messages were passed
-- ARGV[5] oldest   integer 1..2^53-1         index of the first of them
-- ARGV[6] window   integer 0..315360000000   ms that the marker lives; 0: no marker
-- ARGV[7] bodies   1..1000 of them           one key each, and any number of keys to spare
--
-- Returns {'ok', index, oldest}: the first message has this index, the next ones follow;
-- {'known', index}: by the marker, it is stored already; {'moved', newest, oldest}: the keys do
-- not cover the next indexes, nothing was written; {'taken'}: a message exists beyond the newest
-- index and is not overwritten.
-- Atomic because two producers must never get the same index, and every index needs a message.
-- Cost: O(bodies + trims); Redis frees trimmed messages at once, so at most 8 MiB plus one message.
-- Roles: producer
local next_index, first_index, wake, marker = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local guess, max_age, keep = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local trims, oldest, window = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local HEAD = 6 -- arguments before the bodies
local FREED = 8388608 -- bytes of messages one call may trim
local LAST = 9007199254740991 -- the greatest index that a Lua number holds exactly
local count = #ARGV - HEAD

-- include: outside

if outside(guess, 0, LAST) or outside(max_age, 0, 315360000000) or outside(keep, 0, LAST)
  or outside(trims, 0, 4000) or outside(oldest, 1, LAST) or outside(window, 0, 315360000000)
  or outside(count, 1, 1000) or outside(#KEYS - 4 - trims, count, 4000) then
  return redis.error_reply('ACKQ_ARGUMENT topic/publish: an argument is out of range; see'
    .. ' topic/publish.lua')
end

-- Check every type before the first write, so that an error means that nothing was done.
local counters = {redis.call('GET', next_index), redis.call('GET', first_index)}
redis.call('XLEN', wake)
local known = window > 0 and redis.call('GET', marker)
local newest, first = tonumber(counters[1] or 0), tonumber(counters[2] or 1)
if outside(newest, 0, LAST - count) or outside(first, 1, LAST) then
  return redis.error_reply('ACKQ_VALUE topic/publish: nextIndex or firstIndex is no index')
end
if first > newest + 1 then
  first = 1 -- somebody started the topic again
end
if known then
  return {'known', tonumber(known)}
end

local spare = #KEYS - 4 - trims - count
local at = 4 + trims + newest - guess -- the key before the first message's
if newest < guess or newest - guess > spare then
  return {'moved', newest, first}
end

local messages, entries = {}, {}
for i = 1, count do
  messages[i] = KEYS[at + i]
  entries[2 * i - 1], entries[2 * i] = KEYS[at + i], ARGV[HEAD + i]
end
if max_age == 0 then
  if redis.call('MSETNX', unpack(entries)) == 0 then
    return {'taken'}
  end
else
  if redis.call('EXISTS', unpack(messages)) > 0 then
    return {'taken'}
  end
  for i = 1, count do
    redis.call('SET', messages[i], ARGV[HEAD + i], 'PX', max_age)
  end
end
local index = newest + 1
newest = newest + count
local newest_text = string.format('%.0f', newest)
redis.call('SET', next_index, newest_text)
if window > 0 then
  redis.call('SET', marker, string.format('%.0f', index), 'PX', window)
end

if keep > 0 and oldest <= first then
  local last = math.min(newest - keep, oldest + trims - 1)
  if last >= first then
    local stop, freed = first - 1, 0
    while stop < last and freed < FREED do
      stop = stop + 1
      -- A value that is no string has no length; it is deleted like the rest.
      freed = freed + (tonumber(redis.pcall('STRLEN', KEYS[5 + stop - oldest])) or 0)
    end
    last = stop
    redis.call('UNLINK', unpack(KEYS, 5 + first - oldest, 5 + last - oldest))
    first = last + 1
    redis.call('SET', first_index, string.format('%.0f', first))
  end
end

-- Redis rejects an id that is not above the last one; then the topic was restarted.
local id = newest_text .. '-0'
if type(redis.pcall('XADD', wake, 'MAXLEN', '~', '1', id, 'n', '')) == 'table' then
  redis.call('DEL', wake)
  redis.call('XADD', wake, 'MAXLEN', '~', '1', id, 'n', '')
end
return {'ok', index, first}
