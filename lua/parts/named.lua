-- include: outside, holds
-- Needs backup.

-- Look at the messages that the arguments from a place on name, up to the end or to ``errors``, in
-- groups of: receipt, a value between two bounds if there are such, size 1..4000, lease keys.
-- Return those whose leases the caller holds, the others, where the groups end, and how many keys
-- they have; nothing if a group is malformed.
local function named(from, low, high)
  local held, refused, position, at, more = {}, {}, 0, from, low and 1 or 0
  while at <= #ARGV and ARGV[at] ~= 'errors' do
    local receipt, size = ARGV[at], tonumber(ARGV[at + 1 + more])
    local value = low and tonumber(ARGV[at + 1])
    if outside(tonumber(receipt), 0, 9007199254740991) or low and outside(value, low, high)
      or outside(size, 1, 4000) or at + 1 + more + size > #ARGV or #ARGV > 4100 then
      return
    end
    at = at + 2 + more
    local scores = redis.call('ZMSCORE', backup, unpack(ARGV, at, at + size - 1))
    for i = 1, size do
      local key = ARGV[at + i - 1]
      local group = holds(receipt, key, scores[i]) and held or refused
      group[#group + 1] = {
        key = key, receipt = receipt, value = value, position = position + i, score = scores[i],
      }
    end
    at, position = at + size, position + size
  end
  return held, refused, at, position
end
