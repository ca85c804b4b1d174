-- include: derive, free_id, bury_canceled, natural_key, cancels, is_put_back

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

-- Return the notes of unique pushes with "taken" on these ids.
local function taken_notes_on(keys)
  local fields = {}
  for i = 1, #keys do
    fields[i] = TAKEN .. keys[i]
  end
  return redis.call('HMGET', receives, unpack(fields))
end

-- Take bodies in order until the call has enough, and return how many were taken. Check whether a
-- key is free only if other messages are recorded, and do not read one that is leased or delayed.
local crowded = redis.call('HLEN', context) > 0
local function take(bodies)
  local keys, used, before = keys_of(bodies), 0, #reply
  -- What is under CANCELS and TAKEN, then the notes on the ids.
  local known = has_receives and #keys > 0
    and redis.call('HMGET', receives, CANCELS, TAKEN, unpack(keys)) or {}
  local cancels = known[1] and open_cancels(known[1], keys)
  local taken_notes = known[2] and taken_notes_on(keys)
  for i = 1, #keys do
    local body, key, count = bodies[i], keys[i], 1
    if #body > max_body then
      dead_letter('', body, 'too large', 0, {}, free_id(body, has_receives and natural_key(body)))
    elseif cancels and cancels.notes[i] and cancels.use(key, body, cancels.notes[i]) then
      bury_canceled(key, body, known[i + 2])
    else
      local is_free = key ~= '' and not claimed[key]
        and not (crowded and redis.call('HEXISTS', context, key) == 1
          and not is_put_back(key, body))
      local note, noted, stale = is_free and known[i + 2], nil, nil
      if note then
        -- An ack deletes the note of its id, so only the message that it is of may have that key.
        noted = noted_mark(note)
        is_free = not noted or noted == mark(body)
        -- A count without the mark of a body is of a message that the article's scripts settled.
        stale = is_free and tonumber(note)
        count = is_free and 1 + listed_count(note, body) or 1
      end
      if must_wait(count) then
        full = true
        break
      end
      if taken_notes and noted_mark(taken_notes[i]) == mark(body) then
        redis.call('HDEL', receives, TAKEN .. key)
      end
      if is_free then
        claimed[key] = true
      else
        key = derive(body)
      end
      if stale and has_errors then
        redis.call('HDEL', errors, key)
      end
      if count > 1 or stale then
        recounted[#recounted + 1] = key
        recounted[#recounted + 1] = count .. (noted and ' ' or '')
      end
      if has_receives then
        counts[#counts + 1] = count
      end
      deliver(key, body, count)
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
  if cancels then
    cancels.write()
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
take_ready(ready, record)
