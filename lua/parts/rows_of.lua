-- Needs heldrows.

-- Return how many messages all held lists have.
local function all_rows()
  local sum = 0
  for _, rows in ipairs(redis.call('HVALS', heldrows)) do
    sum = sum + (tonumber(rows) or 0)
  end
  return sum
end

-- Return how many messages each of these held lists has.
local function rows_of(lists)
  local rows, most = {}, 1000
  for first = 1, #lists, most do
    local last = math.min(first + most - 1, #lists)
    for i, number in ipairs(redis.call('HMGET', heldrows, unpack(lists, first, last))) do
      rows[first + i - 1] = tonumber(number) or 0
    end
  end
  return rows
end
