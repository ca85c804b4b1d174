-- include: free_key
-- Needs ready, handoff, context, delayed, when, due, pop_from, now; score_of, behind.

local LATEST_DUE = 9007199254740991 -- µs
-- A consumer that waits wakes up for the ready list alone: that is the front while it is empty.
local to_front = when == 'front' and redis.call('EXISTS', ready) == 1
local on_list, later = 0, 0 -- messages stored on the ready list, and for later

-- Store a message, and return its lease key if it is for later. Messages of one call are a
-- microsecond apart, since Redis sorts equal scores by key.
local function store(key, body)
  if when == 'now' or when == 'front' then
    if to_front then
      redis.call('LPUSH', handoff, body)
    else
      redis.call(pop_from == 'left' and 'RPUSH' or 'LPUSH', ready, body)
      on_list = on_list + 1
    end
    return
  end
  if later == 0 then
    due = when == 'delay' and due + now or behind(delayed, due, score_of(due))
  end
  local due_text = score_of(math.min(due + later, LATEST_DUE))
  later = later + 1
  key = free_key(key, due_text .. string.format(':%.0f', now))
  redis.call('ZADD', delayed, due_text, key)
  redis.call('HSET', context, key, body)
  return key
end
