-- sharded/seal: retire a closed shard of a queue with groups, if it has only dead letters.
--
-- KEYS[1] {shard}                LIST    a STRING: closed, and the version of the record that made
--                                        it a former one; of a retired shard that version
-- KEYS[2] {shard}BACKUP          ZSET    lease key -> deadline, µs since the epoch
-- KEYS[3] {shard}CONTEXT         HASH    lease key -> message; of a retired shard a STRING as well
-- KEYS[4] {shard}HANDOFF         LIST    front of the ready list
-- KEYS[5] {shard}RECEIVES        HASH    lease key -> receive count
-- KEYS[6] {shard}EXTENDED        HASH    lease key -> receipt:deadline
-- KEYS[7] {shard}DELAYED         ZSET    lease key -> due time
-- KEYS[8] {shard}DEAD            STREAM  dead letters
-- KEYS[9] {shard}RECORD          HASH    the settings of the shard, see record.lua
-- KEYS[10] {shard}ERRORS         HASH    lease key -> why deliveries failed
-- KEYS[11] {shard}PAUSED         STRING  exists while the shard is paused
-- KEYS[12] {shard}GROUPS:BUSY    HASH    group -> messages in flight
-- KEYS[13] {shard}GROUPS:PARKED  ZSET    messages moved aside
-- KEYS[14] {shard}GROUPS:TURNS   ZSET    group whose turn it is -> since, µs
-- KEYS[15] {shard}GROUPS:FLIGHT  HASH    lease key -> place, group
-- KEYS[16] {shard}GROUPS:RUNS    ZSET    messages of one group that one call delivered
-- KEYS[17] {shard}GROUPS:WOKEN   STRING  the message moved to the list to wake a consumer
-- KEYS[18] {shard}GROUPS:CLOSED  LIST    ready messages of a closed shard
-- KEYS[19] {shard}GROUPS:STOPPED HASH    group -> the dead letters that stop it
-- KEYS[20] {shard}GROUPS:RATES   ZSET    group -> when its rate allows the next message, µs
-- KEYS[21] {shard}NOTES          HASH    notes of messages, all of which are gone
-- KEYS[22] {shard}GROUPS:LIMITS  HASH    group -> its own limits
-- KEYS[23] {shard}GROUPS:PAUSES  ZSET    group -> until when it is paused, µs
--
-- Returns 1 if it is retired, now or before; 2 if so, but it has dead letters; 0 if it
-- has messages or a stopped group, is paused, or is not closed.
-- Atomic because a message that came after the check would be lost. What stores messages for later
-- is refused by the type of CONTEXT from now on.
-- Cost: O(1); UNLINK frees the memory in the background.
-- Roles: consumer, worker, operator
local ready, backup, context, handoff = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local delayed, dead, paused, parked = KEYS[7], KEYS[8], KEYS[11], KEYS[13]
local closed, stopped = KEYS[18], KEYS[19]

if redis.call('TYPE', ready).ok ~= 'string' then
  return 0
end
local state = redis.call('GET', ready)
if not tonumber(state) then
  local version = string.match(state, '^closed (%d+)$')
  if not version
    or redis.call('EXISTS', backup, context, handoff, delayed, paused, parked, closed, stopped)
      > 0 then
    return 0
  end
  redis.call('XLEN', dead)
  redis.call('UNLINK', unpack(KEYS, 5, 6))
  redis.call('UNLINK', unpack(KEYS, 9, 10))
  redis.call('UNLINK', unpack(KEYS, 12))
  redis.call('MSET', ready, version, context, version)
end
if redis.call('XLEN', dead) > 0 then
  return 2
end
redis.call('DEL', dead)
return 1
