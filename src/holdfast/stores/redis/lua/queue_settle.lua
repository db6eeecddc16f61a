#!lua flags=allow-oom
-- Settle deliveries, each independently.
-- KEYS  see queue.lua
-- ARGV  1 if the queue has several shards; per delivery its take and field, and 'a' or
--       "<outcome><delay> <ms of the tombstone of its take> <reason>"; run id, tag
-- ->    per delivery 1 if this take still had it, else 0 (a single 1 can come without a list); if
--       the queue has several shards, one more: the number of waiters to wake
local string, struct, call = string, struct, redis.call
-- The record of a group that doesn't exist.
local NONE = string.rep('\0', 24)
local state = #ARGV == 5 and ARGV[3] == 'a' and call('HGET', KEYS[1], '\255')
-- Fast path, with the same result as below: one ack, and no rare case.
if state and string.byte(state) ~= 64 then
  local last, first, next_, below, turn, start, accepted, done, hour, floor, tomb, soonest, waits,
    jobs, extra, others, failures = struct.unpack('>ddddddddddddddBBB', state)
  local clock = call('TIME')
  local now = clock[1] * 1000000 + clock[2]
  -- The latest time seen here. The code below handles a clock that was set back.
  local seen = #state > 115 and struct.unpack('>d', state, 116) or 0
  local member = ARGV[2]
  local take, field = string.sub(member, 1, 32), string.sub(member, 33)
  local plain = string.sub(field, -1) == ':'
  local held = seen <= now + 1000000 and now < soonest and failures == 0
    and (plain or waits <= now) and (jobs > 1 or extra == 0) and call('HGET', KEYS[6], take)
  local ready, fence, count, interval, by_take, attempts, blocks, known
  if held then
    fence, count, interval, by_take, attempts, blocks, known = struct.unpack('>dI2dBdBB', held)
    ready = count == 1 and known == 0
  end
  local name, group, row, due
  if ready and not plain then
    local colon = string.find(field, ':', 1, true)
    name = string.sub(field, colon + 1)
    local head, after, rests = struct.unpack('>ddd', call('HGET', KEYS[1], name) or NONE)
    if by_take == 0 then rests = math.max(rests, now + interval) end
    head = head + 1
    if head < after then
      row = call('HGET', KEYS[2], string.format('%.0f:', head) .. name)
      ready = row
      if row then
        local at, delay = struct.unpack('>dd', row)
        due = math.max(rests, math.min(at, now) + delay)
        group = struct.pack('>ddd', head, after, rests)
      end
    else
      ready, floor = rests <= now, math.max(floor, after)
    end
  end
  if ready and call('ZREM', KEYS[5], member) == 1 then
    local G = KEYS[1]
    done, jobs = done + 1, jobs - 1
    call('HDEL', KEYS[2], field)
    call('HDEL', KEYS[6], take)
    if jobs == 0 then jobs = call('HLEN', KEYS[2]) end
    state = struct.pack('>ddddddddddddddBBBd', last, jobs == 0 and next_ or first, next_, below,
      turn, start, accepted, done, hour, floor, tomb, soonest, waits, jobs, extra,
      jobs == 0 and 0 or others, failures, math.max(seen, now))
    if group then
      call('ZADD', KEYS[3], due, name)
      call('HSET', G, '\255', state, name, group)
    else
      call('HSET', G, '\255', state)
      if name then call('HDEL', G, name) end
    end
    if jobs == 0 then call('PEXPIRE', G, 5400000) end
    local reply = 1
    if ARGV[1] == '1' then reply = {1, group and due < now + 1000000 and 1 or 0} end
    if ARGV[5] == '' then return reply end
    return {ARGV[5], reply}
  end
end

--@ queue.lua
keep_time()
--@ queue_settled.lua
local elsewhere = ARGV[1] == '1'
local answers = settled(2, #ARGV - 3)
if elsewhere then answers[#answers + 1] = due end
return answer(answers)
