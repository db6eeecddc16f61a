#!lua flags=allow-oom
-- Settle deliveries, each independently, and take due jobs then: for a worker that has done one job
-- and wants the next.
-- KEYS  see queue.lua
-- ARGV  the first twelve of queue_take.lua, but with '' for the waiter; per delivery to settle its
--       take and field, and its outcome (queue_settle.lua); run id, tag
-- ->    as of queue_take.lua, and last a text: per delivery 1 if its take still had it, else 0;
--       {3, that text}: call recovery.lua before a take
local string, struct, call = string, struct, redis.call
-- The record of a group that doesn't exist.
local NONE = string.rep('\0', 24)
local state = #ARGV == 16 and ARGV[14] == 'a' and ARGV[2] == '1' and ARGV[9] == '0'
  and call('HGET', KEYS[1], '\255')
-- Fast path, with the same result as below: one ack and one job, from the groups or the ungrouped
-- jobs, whichever have the turn, and no rare case. All checks come before the first write.
if state and string.byte(state) ~= 64 then
  local last, first, next_, below, turn, start, accepted, done, hour, floor, tomb, soonest, waits,
    jobs, extra, others, failures = struct.unpack('>ddddddddddddddBBB', state)
  local clock = call('TIME')
  local now = clock[1] * 1000000 + clock[2]
  -- The latest time seen here. The code below handles a clock that was set back.
  local seen = #state > 115 and struct.unpack('>d', state, 116) or 0
  local take, run, member = ARGV[1], ARGV[15], ARGV[13]
  local old, over = string.sub(member, 1, 32), string.sub(member, 33)
  -- The end of an ungrouped job makes no other job due, so no waiter is to be woken for it.
  local held = seen <= now + 1000000 and now < soonest and tomb <= now and failures == 0 and others == 0 and jobs > 1
    and (waits <= now or string.byte(over, -1) == 58)
    and (run == '' or call('GET', KEYS[15]) == run) and call('HMGET', KEYS[6], old, take)
  held = held and not held[2] and held[1]
  local ready, _, count, interval, by_take, known
  if held then
    _, count, interval, by_take, _, _, known = struct.unpack('>dI2dBdBB', held)
    ready = count == 1 and known == 0
  end
  -- The group of the finished job: its record, its next job and when that is due.
  local mine, record, head, after, rests, behind, due
  if ready and string.byte(over, -1) ~= 58 then
    mine = string.sub(over, string.find(over, ':', 1, true) + 1)
    head, after, rests = struct.unpack('>ddd', call('HGET', KEYS[1], mine) or NONE)
    if by_take == 0 then rests = math.max(rests, now + interval) end
    head = head + 1
    if head < after then
      behind = call('HGET', KEYS[2], string.format('%.0f:', head) .. mine)
      ready = behind
      if behind then
        local at, delay = struct.unpack('>dd', behind)
        due = math.max(rests, math.min(at, now) + delay)
      end
    else
      ready, floor = rests <= now, math.max(floor, after)
    end
  end
  local name, field, row
  if ready then
    if turn == 0 or first == next_ then
      local top = call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'WITHSCORES', 'LIMIT', 0, 1)
      name = top[1]
      if due and due <= now and (not name or due < top[2] + 0) then
        name, field, row = mine, string.format('%.0f:', head) .. mine, behind
      elseif name then
        field = string.format('%.0f:', (struct.unpack('>d', call('HGET', KEYS[1], name)))) .. name
        row = call('HGET', KEYS[2], field)
      end
    end
    if not name and first < next_ then
      field = first .. ':'
      row = call('HGET', KEYS[2], field)
      ready = row
    end
  end
  if ready and call('ZREM', KEYS[5], member) == 1 then
    local G = KEYS[1]
    call('HDEL', KEYS[2], over)
    call('HDEL', KEYS[6], old)
    done, jobs = done + 1, jobs - 1
    if due then
      if name == mine and ARGV[5] == '1' then rests = now + ARGV[4] end
      call('HSET', G, mine, struct.pack('>ddd', head, after, rests))
      if name ~= mine then call('ZADD', KEYS[3], due, mine) end
    elseif mine then
      call('HDEL', G, mine)
    end
    if name then
      if name ~= mine then
        call('ZREM', KEYS[3], name)
        if ARGV[5] == '1' then
          local from, upto = struct.unpack('>dd', call('HGET', G, name))
          call('HSET', G, name, struct.pack('>ddd', from, upto, now + ARGV[4]))
        end
      end
      turn = 1
    elseif row then
      first, turn = first + 1, 0
    end
    local reply = {2, 0, '1'}
    if row then
      local ends = now + ARGV[3]
      last, soonest = math.max(last + 1, now), math.min(soonest, ends)
      call('ZADD', KEYS[5], ends, take .. field)
      call('HSET', KEYS[6], take, struct.pack('>dI2dBdBBI2', last, 1, ARGV[4], ARGV[5], ARGV[6],
        ARGV[7], string.sub(row, 17, 20) == '\0\0\0\0' and 0 or 1, #ARGV[8]) .. ARGV[8]
        .. struct.pack('>I2', #field) .. field)
      reply = {1, last, now, field, row, 1, 0, '1'}
    end
    call('HSET', G, '\255', struct.pack('>ddddddddddddddBBBd', last, first, next_, below, turn, start,
      accepted, done, hour, floor, tomb, soonest, waits, jobs, extra, others, failures,
      math.max(seen, now)))
    for gone in string.gmatch(ARGV[12], '[^\n]+') do call('ZREM', KEYS[11], gone) end
    if ARGV[16] == '' then return reply end
    return {ARGV[16], reply}
  end
end

--@ queue.lua
keep_time()
--@ queue_settled.lua
local said = table.concat(settled(13, #ARGV - 3))
flush()
reap()
--@ queue_taken.lua
local reply = taken()
if reply[1] == 6 then reply = {3} end
reply[#reply + 1] = said
return answer(reply)
