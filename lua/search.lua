-- search: return messages of one place whose bodies contain given texts, a window at a time.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}BACKUP     ZSET    lease key -> deadline, µs since the epoch
-- KEYS[3] {name}HANDOFF    LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[4] {name}DELAYED    ZSET    lease key -> due time, µs since the epoch
-- KEYS[5] {name}DEAD       STREAM  key, body, reason, count, time, errors of dead letters
-- KEYS[6] {name}CLAIM:<group>:<batch>  LIST  a held list; may be absent
--
-- ARGV[1] place            ready|handoff|held|backup|delayed|dead
-- ARGV[2] from             of a list: integer 0..9007199254740991, how many messages from the end
--                          that is taken are still to be searched; of backup and delayed: the
--                          cursor of a scan, 0 at first; dead: search entries before this one, or +
-- ARGV[3] taken            right|left                  the end of the list that is taken
-- ARGV[4] texts            1..8 texts that a body must contain, of 1..4096 bytes, as they stand in
--                          JSON; none for backup and delayed
--
-- Returns for a list {from, size, offset, body, offset, body, ...}: the next from, 0 at the end;
-- how long the list is; offset: how many messages of the list are taken before this one. For
-- backup and delayed {cursor, size, key, key, ...}: the next cursor, 0 at the end, and lease keys
-- to pass to find. For dead {entry, looked at, letter, letter, ...}: the next from, empty at the
-- end; letters as XRANGE returns them, newest first.
-- A list is searched towards the end that is taken: what is taken and pushed meanwhile moves no
-- message past the window, so none that stays on the list is missed.
-- Atomic because a window must not change while it is read.
-- Cost: O(size of the list) to reach the window; at most 2,000 messages of a list, 500 dead
-- letters, 1,000 keys, and 1 MiB of bodies plus one message.
-- Redis reports no element lengths: behind short messages up to 16 of any length are read at once.
-- Roles: scheduler, viewer, operator, doctor
local ready, backup, handoff, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local dead, claim = KEYS[5], KEYS[6]
local place, from, taken = ARGV[1], ARGV[2], ARGV[3]

local BODY_BUDGET = 1048576 -- bytes of bodies one call may read
local MAX_IN_CALL = 2000 -- messages of a list one call may look at
local MAX_LETTERS = 500
local SCANNED = 1000 -- keys
local SLICE = 16 -- bodies read at a time, as long as those before were short
local SHORT = 4096 -- bytes

-- Parts: outside, contains
local function outside(number, low, high)
  return not (number and number >= low and number <= high and number % 1 == 0)
end

local SEARCHED = 1048576 -- bytes of a body that are searched

-- Return the texts in these arguments, or nil if one is empty or too long.
local function wanted_texts(first, last)
  local wanted = {}
  for i = first, last do
    if #ARGV[i] < 1 or #ARGV[i] > 4096 then
      return
    end
    wanted[#wanted + 1] = ARGV[i]
  end
  return wanted
end

-- Return whether all the texts are in the body, or may be: JSON can write a letter as \u0061, and a
-- slash as \/, and the end of a very long body is not searched. The client decodes it and decides.
local function contains(body, wanted)
  if #wanted == 0 then
    return true
  end
  local head = #body <= SEARCHED and body or string.sub(body, 1, SEARCHED)
  for i = 1, #wanted do
    if not string.find(head, wanted[i], 1, true) then
      return #body > SEARCHED or string.find(head, '\\u', 1, true) ~= nil
        or string.find(head, '\\/', 1, true) ~= nil
    end
  end
  return true
end
-- End of parts (edit them in lua/parts)

local list = ({ready = ready, handoff = handoff, held = claim})[place]
local zset = ({backup = backup, delayed = delayed})[place]
local is_right = taken == 'right'
if not (list or zset or place == 'dead') or not (is_right or taken == 'left') then
  return redis.error_reply('ACKQ_ARGUMENT search: no such place, or no such end')
end
local number = tonumber(from)
if place ~= 'dead' and (not string.match(from, '^%d+$') or #from > 20
  or (list and outside(number, 0, 9007199254740991))) then
  return redis.error_reply('ACKQ_ARGUMENT search: from is an integer')
end
if place == 'dead' and from ~= '+' and not string.match(from, '^%d+%-%d+$') then
  return redis.error_reply('ACKQ_ARGUMENT search: from is an entry of a stream, or +')
end
local wanted = wanted_texts(4, #ARGV)
if not wanted or #wanted > 8 or (#wanted > 0) == (zset ~= nil) then
  return redis.error_reply('ACKQ_ARGUMENT search: 1..8 texts of 1..4096 bytes, none for a set')
end

local bytes, looked, slice = 0, 0, 1

-- Count what was read, and return how many may be read next.
local function read(some, size)
  bytes, looked = bytes + size, looked + some
  slice = bytes < looked * SHORT and math.min(SLICE, 2 * slice) or 1
end

if zset then
  local page = redis.call('ZSCAN', zset, from, 'COUNT', SCANNED)
  local reply = {page[1], redis.call('ZCARD', zset)}
  for i = 1, #page[2], 2 do
    reply[#reply + 1] = page[2][i]
  end
  return reply
end

if place == 'dead' then
  local reply, before = {'', 0}, from
  repeat
    local letters = redis.call('XREVRANGE', dead, before == '+' and '+' or '(' .. before, '-',
      'COUNT', slice)
    local size, asked = 0, slice
    for i = 1, #letters do
      local key, body = '', ''
      local fields = letters[i][2]
      for at = 1, #fields, 2 do
        key = fields[at] == 'key' and fields[at + 1] or key
        body = fields[at] == 'body' and fields[at + 1] or body
        size = size + #fields[at + 1]
      end
      if body == '' or contains(body, wanted) or contains(key, wanted) then
        reply[#reply + 1] = letters[i]
      end
      before = letters[i][1]
    end
    read(#letters, size)
    reply[1] = #letters == asked and before or ''
  until #letters < asked or looked >= MAX_LETTERS or bytes >= BODY_BUDGET
  reply[2] = looked
  return reply
end

local size = redis.call('LLEN', list)
local left = math.min(number, size)
local reply = {left, size}
while left > 0 and looked < MAX_IN_CALL and bytes < BODY_BUDGET do
  local some = math.min(slice, left)
  local first = is_right and -left or left - some
  local bodies = redis.call('LRANGE', list, string.format('%.0f', first),
    string.format('%.0f', first + some - 1))
  local length = 0
  for i = 1, #bodies do
    length = length + #bodies[i]
    if contains(bodies[i], wanted) then
      reply[#reply + 1] = string.format('%.0f', is_right and left - i or left - some + i - 1)
      reply[#reply + 1] = bodies[i]
    end
  end
  read(some, length)
  left = left - some
end
reply[1] = string.format('%.0f', left)
return reply
