-- search: return messages of one place whose bodies contain given texts, a window at a time.
--
-- include: counted_keys
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
-- Redis reports no element lengths: up to 16 messages are read at once, and 64 in the middle of a
-- long list, which takes Redis long to reach; as many as fit if they are as long as those before.
-- Roles: worker, scheduler, viewer, operator, doctor
local ready, backup, handoff, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local dead, claim = KEYS[5], KEYS[6]
local place, from, taken = ARGV[1], ARGV[2], ARGV[3]

local BODY_BUDGET = 1048576 -- bytes of bodies one call may read
local MAX_LETTERS = 500
local SCANNED = 1000 -- keys

-- include: outside, contains, next_slice, walk

local walked = ({ready = ready, handoff = handoff, held = claim})[place]
local zset = ({backup = backup, delayed = delayed})[place]
local is_right = taken == 'right'
if not (walked or zset or place == 'dead') or not (is_right or taken == 'left') then
  return redis.error_reply('ACKQ_ARGUMENT search: no such place, or no such end')
end
local number = tonumber(from)
if place ~= 'dead' and (not string.match(from, '^%d+$') or #from > 20
  or (walked and outside(number, 0, 9007199254740991))) then
  return redis.error_reply('ACKQ_ARGUMENT search: from is an integer')
end
if place == 'dead' and from ~= '+' and not string.match(from, '^%d+%-%d+$') then
  return redis.error_reply('ACKQ_ARGUMENT search: from is an entry of a stream, or +')
end
local wanted = wanted_texts(4, #ARGV)
if not wanted or #wanted > 8 or (#wanted > 0) == (zset ~= nil) then
  return redis.error_reply('ACKQ_ARGUMENT search: 1..8 texts of 1..4096 bytes, none for a set')
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
  local reply, before, bytes, looked, slice, largest = {'', 0}, from, 0, 0, 1, 1
  repeat
    local letters = redis.call('XREVRANGE', dead, before == '+' and '+' or '(' .. before, '-',
      'COUNT', slice)
    local asked = slice
    for i = 1, #letters do
      local key, body, size = '', '', 0
      local fields = letters[i][2]
      for at = 1, #fields, 2 do
        key = fields[at] == 'key' and fields[at + 1] or key
        body = fields[at] == 'body' and fields[at + 1] or body
        size = size + #fields[at + 1]
      end
      if body == '' or contains(body, wanted) or contains(key, wanted) then
        reply[#reply + 1] = letters[i]
      end
      before, bytes, largest = letters[i][1], bytes + size, math.max(largest, size)
    end
    looked = looked + #letters
    slice = next_slice(slice, SLICE, bytes, largest)
    reply[1] = #letters == asked and before or ''
  until #letters < asked or looked >= MAX_LETTERS or bytes >= BODY_BUDGET
  reply[2] = looked
  return reply
end

local reply = {0, 0}
local left, size = walk(walked, is_right, number, function(body, offset)
  if contains(body, wanted) then
    reply[#reply + 1] = string.format('%.0f', offset)
    reply[#reply + 1] = body
  end
  return #body
end)
reply[1], reply[2] = string.format('%.0f', left), size
return reply
