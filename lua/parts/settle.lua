-- include: outside, holds, names
-- Needs backup, context, receives, extended, delayed, counters, errors, notes, watched,
-- has_receives, has_errors, has_extended, has_delayed, has_notes; SCRIPT, and settled: where the
-- groups begin in ARGV. No function, so that a call without groups pays nothing for it.

-- Return the keys of the only group if no other key has its receipt as score, as after most
-- batches: a range shows that without printing and reading a score for each.
local function whole_batch(receipt, size)
  if size == 1 or #ARGV ~= settled + 1 + size
    or redis.call('ZCOUNT', backup, receipt, receipt) ~= size then
    return
  end
  local keys, named = redis.call('ZRANGEBYSCORE', backup, receipt, receipt), {}
  for i = settled + 2, #ARGV do
    named[ARGV[i]] = true
  end
  for i = 1, size do
    if not named[keys[i]] then
      return
    end
  end
  return keys
end

-- Delete the messages whose receipts are valid. ``acked`` is their number, and ``refused`` has the
-- positions of the others.
local done, refused, position, acked, batch = {}, {}, 0, 0, nil
local names = has_notes and open_names()
while settled <= #ARGV do
  local receipt, size = ARGV[settled], tonumber(ARGV[settled + 1])
  if outside(tonumber(receipt), 0, 9007199254740991) or outside(size, 1, 4000)
    or settled + 1 + size > #ARGV or #ARGV > 4100 then
    return redis.error_reply('ACKQ_ARGUMENT ' .. SCRIPT
      .. ': a group is a receipt, a size and size keys')
  end
  local keys = position == 0 and whole_batch(receipt, size)
  if keys then
    done, batch = keys, receipt
  else
    local scores = redis.call('ZMSCORE', backup, unpack(ARGV, settled + 2, settled + 1 + size))
    for i = 1, size do
      local key, score = ARGV[settled + 1 + i], scores[i]
      position = position + 1
      if score == receipt or holds(receipt, key, score) then
        done[#done + 1] = key
      else
        local waits = score or (has_delayed and redis.call('ZSCORE', delayed, key))
        refused[#refused + 1] = waits and position or -position
      end
    end
  end
  settled = settled + 2 + size
end

if #done > 0 then
  redis.call('HDEL', context, unpack(done))
  acked = batch and redis.call('ZREMRANGEBYSCORE', backup, batch, batch)
    or redis.call('ZREM', backup, unpack(done))
  if has_receives then
    redis.call('HDEL', receives, unpack(done))
  end
  if has_errors then
    redis.call('HDEL', errors, unpack(done))
  end
  if names then
    names.end_all(done)
  end
  if has_extended then
    redis.call('HDEL', extended, unpack(done))
  end
  if watched then
    redis.pcall('HINCRBY', counters, 'acked', acked)
  end
end
