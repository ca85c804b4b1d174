-- include: outside

local STRIDE = 9 -- keys of a partition

-- A receipt is valid while it equals the lease, or while it is recorded for an extension to it. The
-- ready time must equal the lease too: otherwise another client touched the message, and it may be
-- a new one with the same key.
local function holds_lease(first, receipt, key, lease, score)
  if not lease or math.floor(score * 1000000 + 0.5) ~= tonumber(lease) then
    return false
  end
  return tonumber(lease) == tonumber(receipt)
    or redis.call('HGET', KEYS[first + 3], key) == receipt .. ':' .. string.format('%.0f', lease)
end

-- Look at the messages that the arguments from a place on name, up to the end or to ``errors``, in
-- groups of: position of the partition from 1, receipt, a value between two bounds if there are
-- such, size 1..4000, keys. Return those whose leases the caller holds (none if it is fenced), the
-- others, where the groups end, and how many keys they have; nothing if a group is malformed.
local function named(fenced, from, low, high)
  local held, refused, position, at, more = {}, {}, 0, from, low and 1 or 0
  while at <= #ARGV and ARGV[at] ~= 'errors' do
    local first, receipt = tonumber(ARGV[at]), ARGV[at + 1]
    local value, size = low and tonumber(ARGV[at + 2]), tonumber(ARGV[at + 2 + more])
    if outside(first, 1, (#KEYS - 2) / STRIDE) or outside(tonumber(receipt), 0, 9007199254740991)
      or low and outside(value, low, high) or outside(size, 1, 4000)
      or at + 2 + more + size > #ARGV or #ARGV > 6000 then
      return
    end
    first, at = (first - 1) * STRIDE + 3, at + 3 + more
    local scores = redis.call('ZMSCORE', KEYS[first], unpack(ARGV, at, at + size - 1))
    local leases = redis.call('ZMSCORE', KEYS[first + 2], unpack(ARGV, at, at + size - 1))
    for i = 1, size do
      local key = ARGV[at + i - 1]
      local is_held = scores[i] and not fenced
        and holds_lease(first, receipt, key, leases[i], scores[i])
      local group = is_held and held or refused
      group[#group + 1] = {
        first = first, key = key, receipt = receipt, value = value, position = position + i,
        score = scores[i], lease = leases[i],
      }
    end
    at, position = at + size, position + size
  end
  return held, refused, at, position
end
