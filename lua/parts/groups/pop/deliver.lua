-- Deliveries: a message in the reply has a lease and, with a group, a slot. If only one message of
-- the group may be in flight and the call delivers several, all of them are in RUNS.

local LONG_BATCH = 20 -- messages
-- Redis stores a small sorted set or hash as a list and scans it at each insertion, unless a member
-- is over 64 bytes long (zset-max-listpack-value). So a long batch adds such a member for a moment.
-- It cannot be a lease key, because derived keys have no hyphen.
local LONG_KEY = '\0' .. string.rep('-', 64)
local FIRST = string.rep('0', 16) -- the place of a message that was never parked
local counts, leases, recounted, entered, flights, ran = reply[4], {}, {}, {}, {}, {}
-- Of the groups that may have one message in flight: where in the reply the first one is that this
-- call takes, its place if it has one, and how many it takes if that is more than one; and the
-- groups that may have further ones, in the order found.
local first_at, first_place, mine, followed, is_followed = {}, {}, {}, {}, {}

local function deliver(key, body, count, tag, at)
  local last = 2 * taken
  leases[last + 1], leases[last + 2] = lease, key
  reply[last + 5], reply[last + 6] = key, body
  taken, bytes = taken + 1, bytes + #body
  full = full or taken >= wanted or bytes >= BODY_BUDGET or count >= last_receive
  if rules.each then
    take_permit(tag)
  end
  if limit > 1 or tag == '' then
    return
  elseif not first_at[tag] then
    first_at[tag] = last + 5
    if at ~= FIRST then
      first_place[tag] = at
    end
    return
  elseif not mine[tag] then
    mine[tag] = 1
    ran[#ran + 1], ran[#ran + 2] = '0',
      head_of(tag) .. (first_place[tag] or FIRST) .. reply[first_at[tag]]
  end
  ran[#ran + 1], ran[#ran + 2] = '0', head_of(tag) .. at .. key
  mine[tag] = mine[tag] + 1
end

-- Give a message a slot of its group.
local function enter(key, tag, at)
  if tag ~= '' then
    local number = #entered + 1
    entered[number], flights[2 * number - 1], flights[2 * number] = key, key, '=' .. at .. tag
    add_slots(tag, 1)
  end
end

-- The group of a message that this call takes may have others that are moved aside.
local function follow(tag)
  if first_at[tag] and not is_followed[tag] then
    followed[#followed + 1], is_followed[tag] = tag, true
  end
end

-- Store the leases, slots, runs and counts of the messages in the reply.
local function write_deliveries()
  if taken >= LONG_BATCH and redis.call('EXISTS', backup) == 0 then
    redis.call('ZADD', backup, '0', LONG_KEY)
  end
  redis.call('ZADD', backup, unpack(leases))
  if taken >= LONG_BATCH then
    redis.call('ZREM', backup, LONG_KEY)
  end
  if #flights > 0 then
    -- The slots of earlier messages with these ids, which scripts without groups deleted.
    local stale = {}
    local entries = redis.call('HMGET', flight, unpack(entered))
    for i = 1, #entered do
      if entries[i] then
        stale[#stale + 1] = entered[i]
      end
    end
    if #stale > 0 then
      free(stale)
    end
    if taken >= LONG_BATCH and redis.call('EXISTS', flight) == 0 then
      redis.call('HSET', flight, LONG_KEY, '')
    end
    redis.call('HSET', flight, unpack(flights))
    if taken >= LONG_BATCH then
      redis.call('HDEL', flight, LONG_KEY)
    end
  end
  if #ran > 0 then
    local is_long = #ran >= 2 * LONG_BATCH and redis.call('EXISTS', runs) == 0
    redis.call('ZADD', runs, '0', is_long and LONG_KEY or ran[2], unpack(ran))
    if is_long then
      redis.call('ZREM', runs, LONG_KEY)
    end
  end
  if #recounted > 0 then
    redis.call('HSET', receives, unpack(recounted))
  end
end
