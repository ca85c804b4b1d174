-- Needs backup, and settled: where the groups begin in ARGV.

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
