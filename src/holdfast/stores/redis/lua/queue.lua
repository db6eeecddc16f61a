-- One shard of a serial queue, for all of its scripts. Each includes this after its own first part.
--
-- A job is a field of the rows, "<number>:<group>". The jobs of a group are numbered one after the
-- other, so a group's record is the number of its first job and the number of its next one.
-- Ungrouped jobs are numbered in the same way; those with a delay are numbered downwards from -1.
-- A row: ROW, its id, its payload. It is never changed in place.
-- KEYS  1 state: a hash of STATE, at HERE, and GROUP of each group that has jobs or must rest
--       2 rows: a hash
--       3 groups whose first job is not delivered, by the time at which it is due: a zset
--       4 ungrouped jobs that are not in the order of their numbers, by that time: a zset
--       5 deliveries: a zset of take and field, by the end of the lease
--       6 takes: a hash of TAKE, its owner and its fields; at 'c<take>' how many are left
--       7 failures: a hash of FAILED and the reason, for jobs that have failed
--       8 dead letters: a zset of fields by the time of acceptance
--       9 ids in their dedup window, by its end: a zset
--      10 tombstones: takes that must get nothing, by the end: a zset
--      11 waiters: a zset of "<take> <ticket> <address>", by the time of their last request
--      12 groups without jobs that must rest, by the end of the rest: a zset
--      13, 14 producers: hashes of the last request of each, of even hours and of odd ones
--      15 the recovery record (recovery.lua)
-- Times are microseconds. The last arguments are the run id, for recovery, and the tag.
local G, J, D, P, E, T, I = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local Z, K, B, W, R = KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local run, tag = ARGV[#ARGV - 1], ARGV[#ARGV]
-- No text contains the byte 255, so no group has this name.
local HERE, LONG = '\255', string.rep('\255', 65)
-- The last fence; the first and the next number of ungrouped jobs, and the last one downwards; the
-- turn (0: groups); when the next job may start by the rate; the numbers of accepted and of done
-- jobs; the hour of the producers; a number above those of all removed groups; the end of the last
-- tombstone; the earliest end of a lease; until when there can be waiters; the number of jobs;
-- 1 each: ids or resting groups, ungrouped jobs out of order, failures can be here. After it the
-- latest time that was seen here (an earlier release omits it).
local STATE, STATE_BYTES = '>ddddddddddddddBBB', 115
local GROUP, ROW, FAILED = '>ddd', '>ddI4I2', '>dd'
-- The first fence, number of jobs, interval, 1 if it counts from the take, last attempt, 1 if a
-- dead letter blocks its group, 1 if a job has a dedup window; the bytes of the owner.
local TAKE = '>dI2dBdBBI2'
local HOUR, SOON = 3600000000, 1000000
-- A waiter asks again within a second. One that did not in this time is gone.
local PATIENCE = 1500000
-- Milliseconds after which an unused queue is removed. No late copy of a request comes then.
local LIFE = 5400000

--@ layout.lua

local last, first, next_, below, turn, start, accepted, done, hour, floor, tomb, soonest, waits,
  jobs, extra, others, failures = 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0
local seen = 0
local raw = call('HGET', G, HERE)
if raw then
  layout(raw)
  last, first, next_, below, turn, start, accepted, done, hour, floor, tomb, soonest, waits,
    jobs, extra, others, failures = struct.unpack(STATE, raw)
  if #raw > STATE_BYTES then seen = struct.unpack('>d', raw, STATE_BYTES + 1) end
end
-- NaN is not less than anything. A state that was damaged from outside can block a queue
-- permanently.
if not (math.abs(last + first + next_ + below + turn + start + accepted + done + hour + floor + tomb
  + waits + seen) < 1e17) or last < 0 or next_ < first then
  error({err = 'ERR user_script: the state of the queue is damaged (key ' .. G .. ')'})
end
local before = raw and jobs or -1
-- Number of jobs that have become due, or will within a second.
local due = 0
-- The writes that `flush` makes together: removals, groups to line up, and per take the number of
-- its deliveries that ended.
local rows, loans, failed, ended, lines = {}, {}, {}, {}, {}

local function many(command, key, list)
  for i = 1, #list, 1000 do call(command, key, unpack(list, i, math.min(#list, i + 999))) end
end

-- Add to a zset. Redis stores a short zset as a list and searches it from its beginning for each
-- member. One long member makes Redis convert it, and is removed then.
local function into(key, list)
  local some = #list > 40
  if some then call('ZADD', key, 'inf', LONG) end
  many('ZADD', key, list)
  if some then call('ZREM', key, LONG) end
end

-- If the clock was set back since the last call, move all stored times back, too. Otherwise no job
-- becomes due and no lease ends until the clock has caught up. All scripts that save start with it.
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
    -- Only records with an end are left; or there are jobs again.
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

-- The time of acceptance, and the time before which the job isn't delivered.
local function times(row)
  local at, delay = struct.unpack('>dd', row)
  at = math.min(at, now)  -- the clock may have been set back since
  return at, at + delay
end

-- Count a job for which a waiter is to be woken.
local function rouse(moment)
  if moment < now + SOON then due = due + 1 end
end

local function line_up(name, moment)
  lines[#lines + 1], lines[#lines + 2] = moment, name
  rouse(moment)
end

-- The first job of a group has left it. Line up the next one, or rest, or remove the group.
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

-- A job has ended. Remember its id for the rest of its dedup window.
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

-- The record of a take: {fence, count, interval, by take, attempts, blocks, known, owner, offset of
-- its fields, the whole record}
local function known_take(take)
  local raw = call('HGET', T, take)
  if not raw then return end
  local found = {struct.unpack(TAKE, raw)}
  local bytes, at = found[8], found[9]
  found[8], found[9], found[10] = string.sub(raw, at, at + bytes - 1), at + bytes, raw
  return found
end

-- Replaces a take that the server has evicted, so that its jobs are delivered again.
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
    -- The job was delivered after that time: if it is to come, the clock was set back since.
    if not_before > now then not_before = 0 end
  end
  if reason == '' then reason = old end
  not_before = math.max(not_before, before)
  failures = 1
  call('HSET', I, field, struct.pack(FAILED, attempts + 1, not_before) .. reason)
  return attempts + 1, not_before
end

-- End the delivery of a field to a take, at the time `when`, with this outcome: a(ck), r(etry),
-- d(ead letter), b(ack: released). An expired one is 'r', or dead after its last attempt.
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
    -- Its place is by the time of its release, or it would be delivered before all others.
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

-- End deliveries whose lease has expired.
local function reap()
  if now < soonest then return end
  local ended = call('ZRANGEBYSCORE', E, '-inf', now, 'WITHSCORES', 'LIMIT', 0, 100)
  for i = 1, #ended, 2 do
    local take, field = string.sub(ended[i], 1, 32), string.sub(ended[i], 33)
    local known = known_take(take) or LOST
    local reason = 'the lease expired: ' .. known[8] .. ' did not renew it'
    finish(take, known, field, 'r', ended[i + 1] + 0, 0, reason, true)
  end
  flush()
  local left = call('ZRANGE', E, 0, 0, 'WITHSCORES')
  soonest = left[2] and left[2] + 0 or math.huge
end

-- Wake this number of waiters, those with the oldest requests first.
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
