-- reject: begin a batch, or append rows of it to the dead letters, each row once.
--
-- KEYS[1] {name}DEAD                 STREAM  key, body, reason, count, time of dead letters
-- KEYS[2] {name}REJECTED:<writer>    HASH    batch, and a field for each row of it that is dead
-- KEYS[3] {name}COUNTERS             HASH    counts, kept while a client watches; see watch.lua
--
-- ARGV[1] batch            text, 1..64 bytes; it sorts behind those of earlier batches
-- ARGV[2] window           integer 1..315360000000     ms that the rows are remembered
-- ARGV[3] rows             groups of four, 0..1000: row (text that names it within the batch),
--                          key (of the dead letter; may be empty), body, reason.
--                          None: begin the batch, and forget the rows of the previous one
--
-- Returns {'ok', appended}: the other rows had been appended before. {'superseded', batch of the
-- record, or ''}: nothing was appended, since the writer has begun another batch.
-- Atomic because a dead letter without its mark would be written twice when the batch is replayed,
-- and a mark without its dead letter would lose the row. A batch must begin before its rows come:
-- several processes write them, and one that was given up would otherwise write rows of a batch
-- whose record is gone. An earlier batch does not begin again: its run was frozen, and replaced.
-- Cost: O(rows). The first write frees memory, so that rows can be rejected at maxmemory: the claim
-- is settled afterwards.
-- Roles: pipeline
local dead, rejected, counters = KEYS[1], KEYS[2], KEYS[3]
local batch, window, base = ARGV[1], tonumber(ARGV[2]), 3

local COUNTED = 100 -- fields of the counters; further reasons count as other

-- include: outside

local rows = (#ARGV - base + 1) / 4
if outside(rows, 0, 1000) or outside(window, 1, 315360000000) or #batch < 1 or #batch > 64 then
  return redis.error_reply('ACKQ_ARGUMENT reject: a batch, a window and up to 1000 groups of four')
end

redis.call('XLEN', dead)
local watched = redis.call('HEXISTS', counters, 'since') == 1
local known = redis.call('HGET', rejected, 'batch')
if known and known > batch or rows > 0 and known ~= batch then
  return {'superseded', known or ''}
end
-- include: now, count_up, write_letter

redis.call('HDEL', rejected, '')
if known ~= batch then
  redis.call('UNLINK', rejected)
  redis.call('HSET', rejected, 'batch', batch)
end
local appended, counts = 0, {}
for at = base, #ARGV, 4 do
  if redis.call('HSETNX', rejected, 'row:' .. ARGV[at], '') == 1 then
    write_letter(dead,
      {key = ARGV[at + 1], body = ARGV[at + 2], reason = ARGV[at + 3], count = 1})
    counts[ARGV[at + 3]] = (counts[ARGV[at + 3]] or 0) + 1
    appended = appended + 1
  end
end
redis.call('PEXPIRE', rejected, ARGV[2])
for reason, number in pairs(counts) do
  local field = 'rows:' .. reason
  if watched and redis.call('HEXISTS', counters, field) == 0
    and redis.call('HLEN', counters) >= COUNTED then
    field = 'rows:other'
  end
  count_up(field, number)
end
return {'ok', appended}
