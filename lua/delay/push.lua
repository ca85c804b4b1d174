-- delay/push: store messages until they are ready; an existing key is not overwritten.
--
-- KEYS in groups of nine, one group a partition; {queue} is {queue}:P in a partitioned queue.
-- include: delay/keys
--
-- ARGV[1] messages          1..1000 groups of: position of the partition from 1, delay|at (from
--                           now, or since the epoch), µs 0..8589934591000000, key, body
--
-- Returns the positions, from 1, of messages that were not stored because their key exists. Those
-- of a partition for the same time become ready in the order of the calls, and in the given order,
-- a microsecond apart.
-- Atomic because a body without a ready time, or the reverse, would never be found.
-- Cost: O(messages log stored).
-- Roles: producer
local STRIDE = 9
local LATEST = 8589934591000000 -- µs; up to here a score in seconds tells microseconds apart

-- include: outside

if #ARGV < 5 or #ARGV > 5000 or #ARGV % 5 ~= 0 or #KEYS % STRIDE ~= 0 then
  return redis.error_reply('ACKQ_ARGUMENT delay/push: 1 to 1000 groups of five arguments')
end
for at = 1, #ARGV, 5 do
  if outside(tonumber(ARGV[at]), 1, #KEYS / STRIDE) or outside(tonumber(ARGV[at + 2]), 0, LATEST)
    or (ARGV[at + 1] ~= 'delay' and ARGV[at + 1] ~= 'at') or ARGV[at + 3] == '' then
    return redis.error_reply('ACKQ_ARGUMENT delay/push: an argument is out of range')
  end
end

-- include: now
local stored, has_side, latest, has_token = {}, {}, {}, {}
for first = 1, #KEYS, STRIDE do
  redis.call('HLEN', KEYS[first + 1])
  has_token[first] = redis.call('LLEN', KEYS[first + 6]) > 0
  has_side[first] = redis.call('EXISTS', KEYS[first + 2], KEYS[first + 3], KEYS[first + 4],
    KEYS[first + 7]) > 0
  if has_side[first] then
    redis.call('ZCARD', KEYS[first + 2])
    redis.call('HLEN', KEYS[first + 3])
    redis.call('HLEN', KEYS[first + 4])
    redis.call('HLEN', KEYS[first + 7])
  end
  stored[first], latest[first] = {}, {}
end

-- include: delay/score_of, delay/time_of, behind, delay/count_up, delay/end_delivery

local duplicates = {}
for at = 1, #ARGV, 5 do
  local first = (ARGV[at] - 1) * STRIDE + 1
  local due, key = tonumber(ARGV[at + 2]), ARGV[at + 3]
  if ARGV[at + 1] == 'delay' then
    due = now + due
  end
  local wanted, row = due, latest[first]
  local text = score_of(math.min(due, LATEST))
  if row[wanted] then
    due = row[wanted] + 1
  elseif ARGV[at + 1] == 'at' then
    due = behind(KEYS[first], due, text)
  end
  row[wanted] = due
  if due > wanted then
    text = score_of(math.min(due, LATEST))
  end
  -- Write the ready time first: at maxmemory it is rejected before anything is stored.
  if redis.call('ZADD', KEYS[first], 'NX', text, key) == 0 then
    duplicates[#duplicates + 1] = (at + 4) / 5
  else
    stored[first][key] = true
    if redis.call('HSETNX', KEYS[first + 1], key, ARGV[at + 4]) == 0 then
      -- A body without a ready time was left by another client. It was accepted, so it is due now.
      redis.call('ZADD', KEYS[first], score_of(now), key)
      duplicates[#duplicates + 1] = (at + 4) / 5
    end
    if has_side[first] then
      -- Left by an earlier message with this key that another client deleted.
      end_delivery(first, key)
    end
  end
end

-- Wake one consumer if one of these messages is now the next.
for first, keys in pairs(stored) do
  if not has_token[first] and keys[redis.call('ZRANGE', KEYS[first], '0', '0')[1]] then
    redis.call('LPUSH', KEYS[first + 6], '1')
  end
end
return duplicates
