-- push_front: push messages before all ready ones, in their order.
--
-- KEYS[1] {name}           LIST    ready messages: pushed on the left, taken from the right
-- KEYS[2] {name}HANDOFF    LIST    front of the ready list: messages handed to a blocked consumer
-- KEYS[3] {name}RECORD     HASH    the settings of the queue, see record.lua
--
-- ARGV[1] pop_from         right|left  the end of the ready list that is popped
-- ARGV[2] left             integer 0..1000  0: push. Otherwise move what a push left on the list:
--                          the number of messages that it replied
-- ARGV[3] bodies           1..1000 bodies, the first to be taken first; to move: the last of them
--
-- Returns how many of these messages are on the ready list now.
-- Messages go to the left end of the hand-off list, which pop takes first, from its right end. So
-- they are taken in their order, also those of several calls. But a consumer that waits wakes up
-- for the ready list alone. So they go to that list if it is empty. Then a second call moves those
-- that no consumer has taken to the hand-off list: the next push to the front would pass them.
-- Without the second call, no message is lost, but it may be passed.
-- Atomic because a message must always be on one of the lists, never on both.
-- Cost: O(bodies), at most 1,000. To move: at most 1 MiB of bodies plus one message; call again
-- while some are left.
-- Roles: scheduler, doctor
local ready, handoff, record = KEYS[1], KEYS[2], KEYS[3]
local pop_from, left = ARGV[1], tonumber(ARGV[2])

local BODY_BUDGET = 1048576 -- bytes of bodies one call may move

-- include: outside

if (pop_from ~= 'right' and pop_from ~= 'left') or outside(left, 0, 1000)
  or #ARGV < 3 or #ARGV > (left > 0 and 3 or 1002) then
  return redis.error_reply('ACKQ_ARGUMENT push_front: an argument is out of range')
end

local is_right, known = pop_from == 'right', pop_from
-- include: record

local function push()
  if redis.call('LLEN', ready) > 0 then
    redis.call('LPUSH', handoff, unpack(ARGV, 3))
    return 0
  end
  redis.call(pop_from == 'left' and 'RPUSH' or 'LPUSH', ready, unpack(ARGV, 3))
  return #ARGV - 2
end

-- The last of the messages that are still there shows how many are.
local function hand_over(last)
  local size, bytes = redis.call('LLEN', ready), 0
  local place = redis.call('LPOS', ready, last, 'RANK', is_right and '-1' or '1', 'MAXLEN', left)
  local rest = not place and 0 or is_right and size - place or place + 1
  while rest > 0 and bytes < BODY_BUDGET do
    bytes = bytes + #redis.call('LMOVE', ready, handoff, is_right and 'RIGHT' or 'LEFT', 'LEFT')
    rest = rest - 1
  end
  return rest
end

if left > 0 then
  return hand_over(ARGV[3])
end
return push()
