-- run_now: make chosen delayed messages ready now, in the given order.
--
-- KEYS[1] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
--
-- ARGV[1] chosen           1..500 pairs of: the due time that the message must have, an integer
--                          0..9007199254740991 µs, or empty for any; lease key
--
-- Returns how many were made ready. Messages that are due already, are not delayed, or have another
-- due time are left alone. Receive counts and notes of failures are kept.
-- Atomic because a pop must not take a message between the look at its due time and the change.
-- Cost: O(chosen log delayed).
-- Roles: operator, doctor
local delayed = KEYS[1]

-- include: outside

if #ARGV < 2 or #ARGV > 1000 or #ARGV % 2 == 1 then
  return redis.error_reply('ACKQ_ARGUMENT run_now: 1..500 pairs of a due time and a key')
end
for at = 1, #ARGV, 2 do
  if ARGV[at] ~= '' and outside(tonumber(ARGV[at]), 0, 9007199254740991) then
    return redis.error_reply('ACKQ_ARGUMENT run_now: a due time is 0..9007199254740991 or empty')
  end
end

-- include: now
-- The first write frees nothing but counts as freeing: a full server can be emptied in this way.
redis.call('ZREMRANGEBYRANK', delayed, 1, 0)
local moved = 0
for at = 1, #ARGV, 2 do
  local due, key = ARGV[at], ARGV[at + 1]
  local score = tonumber(redis.call('ZSCORE', delayed, key) or nil)
  if score and score > now and (due == '' or score == tonumber(due)) then
    -- A microsecond apart, since Redis sorts equal scores by key. They end at the present, so that
    -- all are due.
    redis.call('ZADD', delayed, 'XX', string.format('%.0f', now - 500 + (at + 1) / 2), key)
    moved = moved + 1
  end
end
return moved
