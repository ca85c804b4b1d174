-- delay/drop: delete dead letters of one partition.
--
-- include: delay/keys
--
-- ARGV[1] entries           1..50 stream ids
--
-- Returns how many were deleted. THE MESSAGES ARE LOST.
-- Atomic because what is deleted must be counted.
-- Cost: O(entries). Only few at a time: Redis does not report the size of an entry, and freeing a
-- large one takes time.
-- Roles: operator

-- include: delay/count_up

if #KEYS ~= 9 or #ARGV < 1 or #ARGV > 50 then
  return redis.error_reply('ACKQ_ARGUMENT delay/drop: 1 to 50 entries of one partition')
end
for i = 1, #ARGV do
  if not string.match(ARGV[i], '^%d+%-%d+$') then
    return redis.error_reply('ACKQ_ARGUMENT delay/drop: an entry is a stream id, such as 17-0')
  end
end
local deleted = redis.call('XDEL', KEYS[6], unpack(ARGV))
count_up(1, 'dropped:dead', deleted)
return deleted
