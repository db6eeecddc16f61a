-- One shard of a serial queue, for all of its scripts; each takes this in behind its own head.
--
-- A job is a field of the rows, "<number>:<group>": in a group they are numbered one after the
-- other, so that its first job and the number of its next one are all that is known of a group;
-- the plain lane is numbered in the same way, those that begin with a delay downwards from -1.
-- A row: ROW, its id, its payload. It is written once and removed once.
-- KEYS  1 state: a hash of STATE, at HERE, and GROUP of each group that has jobs or must rest
--       2 rows: a hash
--       3 groups whose first job may be delivered, by the moment at which it is due: a zset
--       4 plain jobs that are not in the order of their numbers, by that moment: a zset
--       5 loans: a zset of take and field, by the end of the lease
--       6 takes: a hash of TAKE, its owner and its fields; and of how many are left, at 'c<take>'
--       7 failures: a hash of FAILED and the reason of those that have failed
--       8 dead letters: a zset of fields by the time of acceptance
--       9 ids that are known, by the time until when: a zset
--      10 takes that must get nothing any more, by the time until when: a zset
--      11 who waits for a job: a zset of "<take> <ticket> <address>", by since when
--      12 groups without jobs that must rest, by the time until when: a zset
--      13, 14 lanes: hashes of the last request of each, of even hours and of odd ones
--      15 the guard's record (guard.lua)
-- Times are microseconds. The last arguments are the run id, for the guard, and the tag.
local G, J, D, P, E, T, I = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local Z, K, B, W, R = KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local run, tag = ARGV[#ARGV - 1], ARGV[#ARGV]
-- No text has this byte, so no group is called so.
local HERE, LONG = '\255', string.rep('\255', 65)
-- The last fence; the first and the next number of the plain lane, the last one downwards; whose
-- turn it is (0: the groups'); when the next one may start by the rate; so many were accepted, and
-- done; the hour of the lanes; above the numbers of groups that are gone; until when there are
-- takes that must get nothing; no lease ends before; until when somebody waits; so many jobs are
-- here; 1 each: ids or resting groups, plain jobs out of order, failures may be here. Behind it the
-- latest time that was seen here (an earlier release leaves it out).
local STATE, STATE_BYTES = '>ddddddddddddddBBB', 115
local GROUP, ROW, FAILED = '>ddd', '>ddI4I2', '>dd'
-- The first fence, how many, interval, start by take, last attempt, it blocks, ids are known; the
-- bytes of its owner.
local TAKE = '>dI2dBdBBI2'
local HOUR, SOON = 3600000000, 1000000
-- Whoever waits asks again within a second; who didn't has gone.
local PATIENCE = 1500000
-- An unused queue is forgotten after so many milliseconds; late copies no more come then.
local LIFE = 5400000

local last, first, next_, below, turn, start, accepted, done, hour, floor, tomb, soonest, waits,
  jobs, extra, others, failures = 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0
local seen = 0
local raw = call('HGET', G, HERE)
if raw then
  last, first, next_, below, turn, start, accepted, done, hour, floor, tomb, soonest, waits,
    jobs, extra, others, failures = struct.unpack(STATE, raw)
  if #raw > STATE_BYTES then seen = struct.unpack('>d', raw, STATE_BYTES + 1) end
end
-- NaN is not less than anything. What was damaged from outside may stop a queue for ever.
if not (math.abs(last + first + next_ + below + turn + start + accepted + done + hour + floor + tomb
  + waits + seen) < 1e17) or last < 0 or next_ < first then
  error({err = 'ERR user_script: the state of the queue is damaged (key ' .. G .. ')'})
end
local before = raw and jobs or -1
-- So many jobs have become due, or will within a second.
local due = 0
-- What is done at the end, at once: what is removed, the groups that are lined up, and of each take
-- how many of its loans are over.
local rows, loans, failed, ended, lines = {}, {}, {}, {}, {}

local function many(command, key, list)
  for i = 1, #list, 1000 do call(command, key, unpack(list, i, math.min(#list, i + 999))) end
end

-- Into a zset. Redis keeps a short one as a list, in which each of many is looked for from its
-- beginning; one long member makes it another, and then goes.
local function into(key, list)
  local some = #list > 40
  if some then call('ZADD', key, 'inf', LONG) end
  many('ZADD', key, list)
  if some then call('ZREM', key, LONG) end
end

-- The clock was set back since somebody was here: so is every moment. Otherwise nothing would be due, nor
-- any lease be over, before the clock has caught up. Every script that changes anything begins so.
local function keep_time()
  local by = seen - now
  if by <= SOON then return end
  for _, key in ipairs({D, P, E, R}) do
    for from = 0, call('ZCARD', key) - 1, 500 do
      local some, list = call('ZRANGE', key, from, from + 499, 'WITHSCORES'), {}
      for i = 1, #some, 2 do list[i], list[i + 1] = some[i + 1] - by, some[i] end
      if #list > 0 then call('ZADD', key, unpack(list)) end
    end
  end
  local groups = call('HGETALL', G)
  for i = 1, #groups, 2 do
    if groups[i] ~= HERE then
      local head, after, rests = struct.unpack(GROUP, groups[i + 1])
      if rests > now then
        call('HSET', G, groups[i], struct.pack(GROUP, head, after, rests - by))
      end
    end
  end
  start, soonest, waits, seen = start - by, soonest - by, waits - by, now
end

local function flush()
  into(D, lines)
  many('HDEL', J, rows)
  many('HDEL', I, failed)
  many('ZREM', E, loans)
  local takes = {}
  for take, one in pairs(ended) do
    if one[1] == 1 then
      takes[#takes + 1] = take
    elseif call('HINCRBY', T, 'c' .. take, -one[2]) <= 0 then
      takes[#takes + 1], takes[#takes + 2] = take, 'c' .. take
    end
  end
  many('HDEL', T, takes)
  rows, loans, failed, ended, lines = {}, {}, {}, {}, {}
end

local function save()
  flush()
  if jobs <= 0 and before ~= 0 then jobs = call('HLEN', J) end
  if jobs == 0 then first, others, failures = next_, 0, 0 end
  if (jobs == 0) ~= (before == 0) and (raw or jobs == 0) then
    -- Nothing is left but what is remembered for a while; or there is something again.
    local lives, keys = LIFE, {G}
    if extra == 1 then
      keys = {G, K, R}
      for i = 2, 3 do
        local longest = call('ZREVRANGE', keys[i], 0, 0, 'WITHSCORES')[2]
        if longest and longest ~= 'inf' then
          lives = math.max(lives, math.ceil((longest - now) / 1000) + 60000)
        end
      end
    end
    call('HSET', G, HERE, '')
    for _, key in ipairs(keys) do
      if jobs == 0 then call('PEXPIRE', key, lives) else call('PERSIST', key) end
    end
  end
  call('HSET', G, HERE, struct.pack(STATE .. 'd', last, first, next_, below, turn, start, accepted,
    done, hour, floor, tomb, soonest, waits, jobs, extra, others, failures, math.max(seen, now)))
end

local function split(field)
  local colon = string.find(field, ':', 1, true)
  return string.sub(field, 1, colon - 1) + 0, string.sub(field, colon + 1)
end

local function group_of(name)
  local record = call('HGET', G, name)
  if record then return struct.unpack(GROUP, record) end
end

-- When it was accepted, and before when it isn't delivered.
local function times(row)
  local at, delay = struct.unpack('>dd', row)
  at = math.min(at, now)  -- the clock may have been set back since
  return at, at + delay
end

-- Somebody who waits is to be woken for it.
local function rouse(moment)
  if moment < now + SOON then due = due + 1 end
end

local function line_up(name, moment)
  lines[#lines + 1], lines[#lines + 2] = moment, name
  rouse(moment)
end

-- The first job of a group has left it: the next one stands there, or the group rests.
local function advance(name, head, after, rests)
  local step = 1
  while head < after do
    local fields = {}
    for number = head, math.min(after, head + step) - 1 do
      fields[#fields + 1] = string.format('%.0f:', number) .. name
    end
    local found = call('HMGET', J, unpack(fields))
    for i = 1, #fields do
      if found[i] then
        local _, before = times(found[i])
        call('HSET', G, name, struct.pack(GROUP, head, after, rests))
        return line_up(name, math.max(rests, before))
      end
      head = head + 1
    end
    step = 64
  end
  if rests > now then
    call('HSET', G, name, struct.pack(GROUP, head, after, rests))
    call('ZADD', R, rests, name)
    extra = 1
  else
    call('HDEL', G, name)
    floor = math.max(floor, after)
  end
end

-- Its job is over: the id of one that is known is remembered for the rest of its window.
local function forget(row)
  local at, _, window, bytes = struct.unpack(ROW, row)
  if window == 0 then return end
  local id, ends = string.sub(row, 23, 22 + bytes), at + (window - 1) * 1000
  if ends > now then call('ZADD', K, ends, id) else call('ZREM', K, id) end
end

local function bury(take, ms)
  call('ZREMRANGEBYSCORE', B, '-inf', now)
  call('ZADD', B, now + ms * 1000, take)
  tomb = math.max(tomb, now + ms * 1000)
  call('PEXPIRE', B, math.ceil((tomb - now) / 1000) + 1000)
end

-- What is known of a take: {fence, count, interval, by take, attempts, blocks, known, owner,
-- where its fields begin, all}
local function known_take(take)
  local raw = call('HGET', T, take)
  if not raw then return end
  local found = {struct.unpack(TAKE, raw)}
  local bytes, at = found[8], found[9]
  found[8], found[9], found[10] = string.sub(raw, at, at + bytes - 1), at + bytes, raw
  return found
end

-- Stands for one that was lost with the server's memory (evicted), so that its jobs come again.
local LOST = {0, 1, 0, 0, 1000000, 0, 1, '?'}

local function fields_of(known)
  local fields, at, raw = {}, known[9], known[10]
  while at <= #raw do
    local bytes
    bytes, at = struct.unpack('>I2', raw, at)
    fields[#fields + 1], at = string.sub(raw, at, at + bytes - 1), at + bytes
  end
  return fields
end

local function fail(field, before, reason)
  local record, attempts, not_before, old = call('HGET', I, field), 0, 0, ''
  if record then
    attempts, not_before = struct.unpack(FAILED, record)
    old = string.sub(record, 17)
    -- It was delivered since: what is still to come was written before the clock was set back.
    if not_before > now then not_before = 0 end
  end
  if reason == '' then reason = old end
  not_before = math.max(not_before, before)
  failures = 1
  call('HSET', I, field, struct.pack(FAILED, attempts + 1, not_before) .. reason)
  return attempts + 1, not_before
end

-- The loan of a field by a take is over since `when`, with this verdict: a(ck), r(etry), d(ead),
-- b(ack). An expired one is 'r', and dead after its last attempt.
local function finish(take, known, field, verdict, when, delay, reason, expired)
  loans[#loans + 1] = take .. field
  local one = ended[take]
  if one then one[2] = one[2] + 1 else ended[take] = {known[2], 1} end
  local number, name, head, after, rests
  if string.byte(field, -1) ~= 58 then
    number, name = split(field)
    head, after, rests = group_of(name)
    if known[4] == 0 then rests = math.max(rests, when + known[3]) end
  end
  local row = (verdict ~= 'a' or known[7] == 1) and call('HGET', J, field)
  if verdict == 'a' then
    done, jobs = done + 1, jobs - 1
    rows[#rows + 1] = field
    if failures == 1 then failed[#failed + 1] = field end
    if row then forget(row) end
    if head then advance(name, number + 1, after, rests) end
    return
  end
  local at, before = times(row)
  if verdict ~= 'b' then
    local attempts, not_before = fail(field, verdict == 'r' and when + delay or 0, reason)
    before = math.max(before, not_before)
    if verdict == 'd' or (expired and attempts >= known[5]) then
      call('ZADD', Z, at, field)
      if not head then return end
      if known[6] == 1 then
        call('HSET', G, name, struct.pack(GROUP, head, after, rests))
      else
        advance(name, number + 1, after, rests)
      end
      return
    end
  else
    local record = call('HGET', I, field)
    if record then
      local _, not_before = struct.unpack(FAILED, record)
      if not_before <= now then before = math.max(before, not_before) end
    end
    -- Its place is by the moment of its return, or it would come again before all others.
    before = math.max(before, when)
  end
  if head then
    call('HSET', G, name, struct.pack(GROUP, head, after, rests))
    line_up(name, math.max(rests, before))
  else
    call('ZADD', P, before, field)
    others = 1
    rouse(before)
  end
end

-- Take back what is on loan beyond its lease.
local function reap()
  if now < soonest then return end
  local ended = call('ZRANGEBYSCORE', E, '-inf', now, 'WITHSCORES', 'LIMIT', 0, 100)
  for i = 1, #ended, 2 do
    local take, field = string.sub(ended[i], 1, 32), string.sub(ended[i], 33)
    local known = known_take(take) or LOST
    local reason = 'the lease ended, as ' .. known[8] .. ' was heard of no more'
    finish(take, known, field, 'r', ended[i + 1] + 0, 0, reason, true)
  end
  flush()
  local left = call('ZRANGE', E, 0, 0, 'WITHSCORES')
  soonest = left[2] and left[2] + 0 or math.huge
end

-- Wake so many of those who wait, the longest waiting first.
local function wake(count)
  if count == 0 or waits <= now then return end
  local idle = call('ZPOPMIN', W, count)
  for i = 1, #idle, 2 do
    local take, ticket, address = string.match(idle[i], '^(%S+) (%S+) (.*)$')
    if idle[i + 1] + PATIENCE > now then
      local publish = string.sub(address, 1, 1) == '{' and 'SPUBLISH' or 'PUBLISH'
      redis.pcall(publish, address, take .. ' ' .. ticket)
    end
  end
end

local function answer(reply)
  save()
  wake(due)
  if tag == '' then return reply end
  return {tag, reply}
end
