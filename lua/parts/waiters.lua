-- Needs looks, waited, now, now_text.

local LOOKS_LAST = 1000000 -- µs in which the share of a look in the estimate falls to 1 / e
local LOOKS_KEPT = 10000 -- ms, many times that

-- Return about how many consumers wait. A look in vain counts for as many seconds as its consumer
-- waited before it. So the looks of one consumer add up to a second in each second, however often
-- it looks. The sum goes to no log and no replica, which would write for every look. ``is_noted``:
-- the later estimates include this look.
local function waiters(is_noted)
  local stored, number = redis.pcall('GET', looks), waited / LOOKS_LAST
  if type(stored) == 'table' then
    return 0 -- the key is somebody else's
  end
  local at, sum = string.match(stored or '', '^(%d+):(%d+%.%d+)$')
  if at then
    number = number + tonumber(sum) * math.exp(math.min(0, tonumber(at) - now) / LOOKS_LAST)
  end
  if is_noted then
    pcall(redis.set_repl, redis.REPL_NONE)
    redis.pcall('SET', looks, now_text .. string.format(':%.3f', number), 'PX', LOOKS_KEPT)
    pcall(redis.set_repl, redis.REPL_ALL)
  end
  return math.ceil(number)
end
