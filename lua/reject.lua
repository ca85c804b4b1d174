-- reject: move messages to the dead letters at once.
--
-- KEYS[1] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[2] {name}CONTEXT    HASH    lease key -> the message as it was pushed
-- KEYS[3] {name}RECEIVES   HASH    lease key -> receive count of redelivered messages
-- KEYS[4] {name}EXTENDED   HASH    lease key -> receipt:deadline of extended leases
-- KEYS[5] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[6] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[7] {name}ERRORS     HASH    lease key -> why deliveries of it failed; see nack.lua
-- KEYS[8] {name}COUNTERS   HASH    counts, kept while a client watches; see watch.lua
-- With groups: KEYS[9] {name} LIST ready messages
-- With groups: KEYS[10] {name}HANDOFF LIST front of the ready list
-- With groups: KEYS[11] {name}HELD STRING the record, see groups/record.lua
-- With groups: KEYS[12] {name}WAITERS:LOOKS STRING exists if a consumer has waited lately
-- With groups: KEYS[13] {name}GROUPS:BUSY HASH see groups/pop.lua
-- With groups: KEYS[14] {name}GROUPS:PARKED ZSET messages moved aside
-- With groups: KEYS[15] {name}GROUPS:TURNS ZSET
-- With groups: KEYS[16] {name}GROUPS:FLIGHT HASH
-- With groups: KEYS[17] {name}GROUPS:RUNS ZSET
-- With groups: KEYS[18] {name}GROUPS:WOKEN STRING
-- With groups: KEYS[19] {name}GROUPS:RATES ZSET
-- With groups: KEYS[20] {name}GROUPS:ROOM LIST
-- With groups: KEYS[21] {name}GROUPS:STOPPED HASH group -> ids of dead letters
-- With groups: KEYS[22] {name}GROUPS:LETTERS HASH id of a dead letter -> place, group
--
-- ARGV[1] reason           text    kept with the dead letter
-- ARGV[2] rejected         groups of: receipt, size 1..4000, then size lease keys. After the last
--                          may follow: errors, then pairs of a position and why; see nack.lua
--
-- Returns {rejected, position, position, ...}: how many were moved, then the positions, from
-- 1, of refused keys: another consumer has the lease, or the message waits for redelivery.
-- Negative: the key is in neither set. Either this reject was resent after a lost reply, or another
-- consumer settled the message; only the caller knows which.
-- A final 0 and a position: pass the keys from there on in the next call.
-- Atomic because a message must always be either leased or dead, never both.
-- Cost: O(rejected log in-flight): at most 100 messages and 1 MiB of bodies and notes, plus one
-- message; each byte of a note counts as four.
-- Roles: consumer, worker, doctor
local backup, context, receives = KEYS[1], KEYS[2], KEYS[3]
local extended, delayed, dead, errors, counters = KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local ready, handoff, record, looks, busy = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local parked, turns, flight = KEYS[14], KEYS[15], KEYS[16]
local runs, woken, rates, room = KEYS[17], KEYS[18], KEYS[19], KEYS[20]
local stopped, letters = KEYS[21], KEYS[22]
local reason, at = ARGV[1], 2

local BODY_BUDGET = 1048576 -- bytes of bodies and notes one call may move
local MAX_IN_CALL = 100 -- messages one call may reject

-- include: outside

redis.call('HLEN', context)
redis.call('HLEN', receives)
redis.call('ZCARD', delayed)
redis.call('XLEN', dead)
local has_errors = redis.call('HLEN', errors) > 0
local watched = redis.call('HEXISTS', counters, 'since') == 1
local has_extended = redis.call('HLEN', extended) > 0
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- include: groups/known
if record then
  redis.call('HLEN', letters)
end

-- include: count_up, holds, failures, add_failure, read_failures, is_unique

local rejected, reply, position = {}, {0}, 0
while at <= #ARGV and ARGV[at] ~= 'errors' do
  local receipt, size = ARGV[at], tonumber(ARGV[at + 1])
  if outside(tonumber(receipt), 0, 9007199254740991) or outside(size, 1, 4000)
    or at + 1 + size > #ARGV or #ARGV > 4100 then
    return redis.error_reply('ACKQ_ARGUMENT reject: a group is a receipt, a size and size keys')
  end
  local scores = redis.call('ZMSCORE', backup, unpack(ARGV, at + 2, at + 1 + size))
  for i = 1, size do
    local key = ARGV[at + 1 + i]
    position = position + 1
    if holds(receipt, key, scores[i]) then
      rejected[#rejected + 1] = {key, position}
    else
      local waits = scores[i] or redis.call('ZSCORE', delayed, key)
      reply[#reply + 1] = waits and position or -position
    end
  end
  at = at + 2 + size
end
local failures = read_failures(at, position)
if not failures then
  return redis.error_reply('ACKQ_ARGUMENT reject: errors are pairs of a position and a line')
end

-- The first write frees memory, so that poison messages can be rejected at maxmemory.
local bytes, gone, ids = 0, {}, {}
for i, entry in ipairs(rejected) do
  local key, failure = entry[1], failures[entry[2]]
  if i > MAX_IN_CALL or bytes >= BODY_BUDGET then
    -- Leave the rest, and the results for it, to the next call.
    while #reply > 1 and math.abs(reply[#reply]) >= entry[2] do
      reply[#reply] = nil
    end
    reply[#reply + 1] = 0
    reply[#reply + 1] = entry[2]
    break
  end
  -- Read everything before the message leaves its lease: while its slot moves to another node,
  -- Redis refuses access to a key that this script has emptied, and it would end halfway.
  local body = redis.call('HGET', context, key) or ''
  local noted = redis.call('HGET', receives, key)
  local count = tonumber(noted) or 1
  local note = has_errors and redis.call('HGET', errors, key) or ''
  local found = failures_of(note, body, count)
  if redis.call('ZREM', backup, key) == 1 then
    -- A pattern reads the notes, which takes longer than moving them.
    bytes = bytes + #body + 4 * #note
    if failure then
      add_failure(found, count, failure)
    end
    local id = redis.call('XADD', dead, '*', 'key', key, 'body', body, 'reason', reason, 'count',
      count, 'time', string.format('%.0f', now), unpack(last_fields(found, is_unique(noted))))
    redis.call('HDEL', context, key)
    redis.call('HDEL', receives, key)
    redis.call('HDEL', errors, key)
    redis.call('HDEL', extended, key)
    reply[1] = reply[1] + 1
    gone[reply[1]], ids[reply[1]] = key, id
  end
end
count_up('dead:rejected', reply[1])
if not record or #gone == 0 then
  return reply
end

local now_text = string.format('%.0f', now)
-- include: groups/slot_changes, groups/stop_all
-- include: groups/free, groups/wake, groups/admit

stop_all(gone, ids)
free(gone)
write_slots()
wake()
admit()
return reply
