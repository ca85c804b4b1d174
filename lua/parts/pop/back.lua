-- include: bury_due, is_receipt, take_over

-- Redelivery: a message that is due, or whose lease has ended, is leased again, put back on the
-- list or made a dead letter; or it stays where it is, for the next call.

-- Lease expired or due messages in place. An absent count is 1 in BACKUP, 0 in DELAYED.
local function take_back(zset, keys, absent)
  local known = has_receives and #keys > 0 and redis.call('HMGET', receives, unpack(keys)) or {}
  for i = 1, #keys do
    if full then
      return
    end
    -- Read one by one, because a body may have any length.
    local key, body = keys[i], redis.call('HGET', context, keys[i])
    local count = 1 + (tonumber(known[i]) or absent)
    if not body or max_receives > 0 and count > max_receives then
      bury_due(zset, key, body, count - 1)
    elseif must_wait(count) or is_receipt(key) then
      full = true
      return
    elseif requeue == 'back' and zset == backup then
      redis.call(from_left and 'RPUSH' or 'LPUSH', ready, body)
      redis.call('ZREM', zset, key)
      forget(key)
      spend(body)
      returned = returned + 1
      note_listed(key, body, count - 1)
      if string.byte(key) == 0 then
        redis.call('HDEL', errors, key)
      end
    else
      take_over(zset, key, count)
      claimed[key] = true -- one that was delayed is in neither set until the end
      deliver(key, body, count)
    end
  end
  full = full or #keys == RECOVERED -- the rest of them comes before what waits
end

-- A dead letter leaves room in the batch: fill it with the next redelivered message, not with a
-- ready one. With requeue 'back' expired messages go behind the ready ones anyway.
local function take_all_back(zset, keys, absent)
  repeat
    local before = dead_lettered
    take_back(zset, keys, absent)
    local again = dead_lettered > before and not full and (requeue == 'front' or zset == delayed)
    -- The messages taken so far keep their old scores in BACKUP until the end: pass over them.
    local first = zset == backup and taken or 0
    keys = again and redis.call('ZRANGEBYSCORE', zset, '-inf', now_text, 'LIMIT', first,
      math.min(wanted - taken, RECOVERED))
  until not again
end

take_all_back(backup, expired, 1)
if is_due and not full then
  take_all_back(delayed, redis.call('ZRANGEBYSCORE', delayed, '-inf', now_text, 'LIMIT', '0',
    math.min(wanted - taken, RECOVERED)), 0)
end
