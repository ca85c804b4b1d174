-- alone: note that a leased message begins to run alone, after a delivery whose end nobody saw.
--
-- include: leased_keys
-- KEYS[5] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
--
-- ARGV[1] receipt          integer 0..9007199254740991
-- ARGV[2] key              lease key
-- ARGV[3] count            integer 1..9007199254740991  the number of this delivery
-- ARGV[4] max_receives     integer 0..9007199254740991  of the message; 0: no limit
-- ARGV[5] failure          one line of JSON, at most 8,192 bytes: why this delivery failed if its
--                          end is not seen either; empty: no error
--
-- Returns {'ok', body}; {'over'}: an earlier delivery that was its last permitted one, or came
-- after that, is known to have failed or to have run alone, so it is dead; {'lost'}: the caller no
-- longer has the lease.
-- Atomic because only the holder of the lease may write the note.
-- Cost: O(1), and the length of the body and of the notes.
-- Roles: worker, doctor
local backup, context, receives, extended, errors = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local receipt, key, count = ARGV[1], ARGV[2], tonumber(ARGV[3])
local max_receives, failure = tonumber(ARGV[4]), ARGV[5]

-- include: outside

if outside(tonumber(receipt), 0, 9007199254740991) or outside(count, 1, 9007199254740991)
  or outside(max_receives, 0, 9007199254740991) or not failure or #failure > 8192
  or string.find(failure, '\n', 1, true) then
  return redis.error_reply('ACKQ_ARGUMENT alone: an argument is out of range; see alone.lua')
end

-- include: now
local has_extended = redis.call('HLEN', extended) > 0
redis.call('HLEN', receives)
local note = redis.call('HGET', errors, key)

-- include: holds, failures, add_failure

-- The first write frees memory, even if only nothing, so that it runs at maxmemory, too.
redis.call('ZREMRANGEBYRANK', backup, 1, 0)
local body = redis.call('HGET', context, key)
if not body or not holds(receipt, key, redis.call('ZSCORE', backup, key)) then
  return {'lost'}
end
local found = failures_of(note, body, count)
local latest = tonumber(string.match(found[#found] or '', '^%d+'))
if max_receives > 0 and latest and latest >= max_receives then
  return {'over'}
end
add_failure(found, count, failure)
redis.call('HSET', errors, key, mark(body) .. '\n' .. table.concat(found, '\n'))
if count > 1 then
  redis.call('HSET', receives, key, string.format('%.0f', count))
end
return {'ok', body}
