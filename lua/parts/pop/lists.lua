-- include: derive, bury_canceled, natural_key, is_put_back, recount, postpone

-- Lists: they are read in order. A message leaves them only if it is leased or made a dead letter.

-- Return the ids of bodies within the budget, and always that of the first one that costs any, as
-- a long id costs beside its body; '': no id.
local function keys_of(bodies)
  local keys = {}
  for i = 1, #bodies do
    local before = decoded
    local key = #bodies[i] <= max_body and natural_key(bodies[i]) or ''
    if decoded > DECODE_BUDGET and before > 0 then
      break
    end
    keys[i] = key
  end
  return keys
end

-- Read what is noted of messages and of their ids. Return the fields of the former.
local function notes_on(bodies, keys)
  local fields, all, ids = {}, {}, {}
  for i = 1, #keys do
    if #bodies[i] > max_body then
      keys[i] = natural_key(bodies[i]) or ''
    end
    if keys[i] ~= '' then
      fields[i] = listed.field(keys[i], bodies[i])
      all[#all + 1], ids[#ids + 1] = fields[i], keys[i]
    end
  end
  if #all > 0 then
    listed.read(all)
  end
  if names then
    names.read(ids)
  end
  return fields
end

-- Take bodies in order until the call has enough, and return how many were taken. Check whether a
-- key is free only if other messages are recorded, and do not read one that is leased or delayed.
local crowded = redis.call('HLEN', context) > 0
local function take(bodies)
  local keys, used, before = keys_of(bodies), 0, #reply
  local counted = has_receives and #keys > 0 and redis.call('HMGET', receives, unpack(keys)) or {}
  local fields = listed and notes_on(bodies, keys) or {}
  for i = 1, #keys do
    local body, key, field = bodies[i], keys[i], fields[i]
    local note = field and listed.of(field)
    local count = note and 1 + note.count or 1
    if #body > max_body then
      dead_letter('', body, 'too large', 0, {}, field and names and names.change(key, mark(body)))
    elseif note and note.canceled > 0 then
      bury_canceled(key, body, note.count)
    else
      local is_free = key ~= '' and not claimed[key]
        and not (crowded and redis.call('HEXISTS', context, key) == 1
          and not is_put_back(key, body))
      if must_wait(count) then
        full = true
        break
      end
      local id = key
      if is_free then
        claimed[key] = true
      else
        key = derive(body, id ~= '' and id or nil)
      end
      local is_stale = is_free and counted[i]
      if note and note.count > 0 and note.since > now then
        postpone(key, field and id, body, note)
      else
        if listed or is_stale then
          recount(key, field and id, body, count, is_stale)
        end
        deliver(key, body, count)
      end
    end
    if field then
      listed.take(field)
    end
    used = i
    if full then
      break
    end
  end
  full = full or decoded > DECODE_BUDGET
  if #reply > before then
    redis.call('HSET', context, unpack(reply, before + 1))
  end
  return used
end

-- Return the next bodies in order. Their lengths are known only after reading, so read 1, 2, 4, ...
-- at a time while they are short, and one by one after one that was too large.
local function read(list, from_left)
  local most = dead_lettered > 0 and 1 or math.min(GROUP, wanted - taken)
  local bodies, count, size, slice = {}, 0, 0, 1
  repeat
    local some = math.min(slice, most - count)
    local first = from_left and count or -count - some
    local part = redis.call('LRANGE', list, first, first + some - 1)
    for i = 1, #part do
      count = count + 1
      bodies[count] = part[from_left and i or #part + 1 - i]
      size = size + #part[i]
    end
    if size < count * SHORT then
      slice = math.min(SLICE, 2 * slice)
    end
  until #part < some or count == most or size >= SLICE * SHORT
  return bodies
end

local function take_ready(list, from_left)
  while not full do
    local bodies = read(list, from_left)
    if #bodies == 0 then
      return
    end
    local used = take(bodies)
    redis.call('LTRIM', list, from_left and used or '0', from_left and '-1' or -used - 1)
  end
end

if has_handoff then
  take_ready(handoff)
end
take_ready(ready, from_left)
