#!lua
-- Put jobs.
-- KEYS  see queue.lua
-- ARGV  producer, number, 1 if the queue has several shards; per job its group and its row without
--       the time; run id, tag
-- ->    1: all are new; a text: per job 1 if it is new, else 0; -1: a late copy of a request. If
--       the queue has several shards, a list of that and the number of waiters to wake
local string, struct, call = string, struct, redis.call
local state = #ARGV == 7 and call('HGET', KEYS[1], '\255')
local lane = ARGV[1]
-- Fast path, with the same result as below: one job without delay and dedup window, of a producer
-- of this hour, with the producer's next number.
if state and string.byte(state) ~= 64 and string.sub(ARGV[5], 1, 12) == '\0\0\0\0\0\0\0\0\0\0\0\0' then
  local last, first, next_, below, turn, start, accepted, done, hour, floor, tomb, soonest, waits,
    jobs, extra, others, failures = struct.unpack('>ddddddddddddddBBB', state)
  local clock = call('TIME')
  local now = clock[1] * 1000000 + clock[2]
  -- The latest time seen here. The code below handles a clock that was set back.
  local seen = #state > 115 and struct.unpack('>d', state, 116) or 0
  local this = math.floor(now / 3600000000)
  local mine = KEYS[13 + this % 2]
  local was = seen <= now + 1000000 and this == hour and waits <= now and jobs + 1 > extra and call('HGET', mine, lane)
  if was and string.match(was, '^%d+') + 1 == ARGV[2] + 0 then
    local name, G, row = ARGV[4], KEYS[1], struct.pack('>d', now) .. ARGV[5]
    local due = 1
    if jobs == 0 then call('PERSIST', G) end
    local put = name == '' and next_ + 1 or next_
    state = struct.pack('>ddddddddddddddBBBd', last, first, put, below, turn, start, accepted + 1,
      done, hour, floor, tomb, soonest, waits, jobs + 1, extra, others, failures,
      math.max(seen, now))
    if name == '' then
      call('HSET', KEYS[2], next_ .. ':', row)
      call('HSET', G, '\255', state)
    else
      local head, after, rests = floor, floor, 0
      local group = call('HGET', G, name)
      if group then head, after, rests = struct.unpack('>ddd', group) end
      call('HSET', KEYS[2], string.format('%.0f:', after) .. name, row)
      if head == after then
        if rests > 0 then call('ZREM', KEYS[12], name) end
        call('ZADD', KEYS[3], math.max(rests, now), name)
      else
        due = 0
      end
      call('HSET', G, '\255', state, name, struct.pack('>ddd', head, after + 1, rests))
    end
    call('HSET', mine, lane, ARGV[2] .. ' ')
    local reply = 1
    if ARGV[3] == '1' then reply = {1, due} end
    if ARGV[7] == '' then return reply end
    return {ARGV[7], reply}
  end
end

--@ queue.lua
keep_time()

local number, elsewhere = ARGV[2] + 0, ARGV[3] == '1'
local known = call('HGET', KEYS[13], lane) or call('HGET', KEYS[14], lane)
if known then
  local was, said = string.match(known, '^(%d+) (.*)$')
  if was + 0 >= number then
    local reply = was + 0 > number and -1 or said == '' and 1 or said
    if elsewhere then reply = {reply, 0} end
    if tag == '' then return reply end
    return {tag, reply}
  end
end

-- Producers of the hour before the last one are removed.
local this = math.floor(now / HOUR)
local mine, other = KEYS[13 + this % 2], KEYS[14 - this % 2]
if this ~= hour then
  call('UNLINK', mine)
  if this ~= hour + 1 then call('UNLINK', other) end
  hour = this
end
local rested = extra == 1 and call('ZRANGEBYSCORE', R, '-inf', now, 'LIMIT', 0, 20) or {}
for _, name in ipairs(rested) do
  local head, after = group_of(name)
  call('ZREM', R, name)
  if head and head >= after then
    call('HDEL', G, name)
    floor = math.max(floor, after)
  end
end

local NONE, PLAIN = string.rep('\0', 8), string.rep('\0', 12)
local at, puts, odd, answers = struct.pack('>d', now), {}, nil, {}
local groups = {}
local swept
for i = 4, #ARGV - 3, 2 do
  local name, row = ARGV[i], ARGV[i + 1]
  local new, head12 = true, string.sub(row, 1, 12)
  if head12 ~= PLAIN and string.sub(row, 9, 12) ~= '\0\0\0\0' then
    if not swept then
      local fading = call('ZRANGEBYSCORE', K, '-inf', now, 'LIMIT', 0, 2000)
      many('ZREM', K, fading)
      call('PERSIST', K)
      extra = 1
      swept = true
    end
    local _, _, bytes = struct.unpack('>dI4I2', row)
    local id = string.sub(row, 15, 14 + bytes)
    local ends = call('ZSCORE', K, id)
    new = not ends or ends + 0 <= now
    if new then call('ZADD', K, 'inf', id) end
  end
  answers[#answers + 1] = new and '1' or '0'
  if not new then
    odd = true
  else
    local delay = string.sub(row, 1, 8) ~= NONE and struct.unpack('>d', row) or 0
    local field
    if name == '' then
      if delay == 0 then
        field, next_, due = next_ .. ':', next_ + 1, due + 1
      else
        below = below - 1
        field = below .. ':'
        call('ZADD', P, now + delay, field)
        others = 1
        rouse(now + delay)
      end
    else
      local group = groups[name]
      if not group then
        group = {group_of(name)}
        if not group[1] then group = {floor, floor, 0} end
        groups[name] = group
      end
      field = string.format('%.0f:', group[2]) .. name
      if group[1] == group[2] then
        if group[3] > 0 then call('ZREM', R, name) end
        line_up(name, math.max(group[3], now + delay))
      end
      group[2] = group[2] + 1
    end
    puts[#puts + 1], puts[#puts + 2] = field, at .. row
    accepted, jobs = accepted + 1, jobs + 1
  end
end
many('HSET', J, puts)
local records = {}
for name, group in pairs(groups) do
  records[#records + 1], records[#records + 2] = name, struct.pack(GROUP, group[1],
    group[2], group[3])
end
many('HSET', G, records)
local said = odd and table.concat(answers) or ''
call('HSET', mine, lane, ARGV[2] .. ' ' .. said)
call('HDEL', other, lane)
call('PEXPIRE', mine, 2 * HOUR / 1000)
local reply = odd and said or 1
if elsewhere then reply = {reply, due} end
return answer(reply)
