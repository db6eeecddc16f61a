#!lua flags=allow-oom
-- Withdraw, release or break a claim, and grant the waiters that fit then.
-- KEYS  state, waiters; in the long form tombstones; recovery record
-- ARGV  claim id, run id, tag
--   or, long, claim id ('': break by its ticket), ticket, ms for which a released hold stays, ms of
--       its tombstone (0: none; of a broken claim: beyond its ttl), run id, tag
-- ->    1: its lease had not expired; 0: it had, or there was no such claim
local redis, string, keys, args = redis, string, KEYS, ARGV
local key = keys[1]
local found = redis.pcall('HGET', key, 's')
local clock = redis.call('TIME')
if found and #found > 50 and not keys[4] and string.find(found, args[1], 1, true) == 1 then
  redis.call('HSET', key, 's', string.sub(found, 33, 40))
  local there = struct.unpack('>d', found, 41) - clock[2] > clock[1] * 1000000 and 1 or 0
  local tag = args[3]
  if tag == '' then return there end
  return {tag, there}
end
local now = clock[1] * 1000000 + clock[2]
-- Fast path, with the same result as below: the only holder hands the whole capacity off.
local unheard
if found and #found == 74 and string.byte(found) == 42 and not KEYS[4] then
  local mark, kind, capacity, former, used, holders, waiters, headweight,
    first, head, headexp, last, tomb, given =
    struct.unpack('>c1c1I4I4I4I4I4I4dddddd', found)
  local row = holders == 1 and waiters > 0 and redis.call('HGET', KEYS[1], ARGV[1])
  local seat = row and redis.pcall('HGET', KEYS[2], 'q' .. head)
  if seat and #seat > 0 then
    local id, ticket, expires, ttl, weight, address, at = struct.unpack('>c32dddI4Bc0', seat)
    if expires > now and expires <= now + 10000000 and given < now + 1000000 and weight == capacity
      and (ARGV[2] == '' or redis.pcall('GET', KEYS[3]) == ARGV[2]) then
      redis.call('HDEL', KEYS[2], 'i' .. id, 'q' .. head)
      redis.call('HDEL', KEYS[1], ARGV[1])
      redis.call('HSET', KEYS[1], id, struct.pack('>ddddI4B', ticket, expires, now, ttl, weight, 0)
        .. string.sub(seat, at), 's', struct.pack('>c1c1I4I4I4I4I4I4dddddd', '*', kind, capacity,
        former, weight, 1, waiters - 1, headweight, expires, head + 1, 0, last, tomb, given))
      if address ~= '' then
        unheard = redis.pcall(string.byte(address) == 123 and 'SPUBLISH' or 'PUBLISH', address,
          id .. string.format(' %.0f', ticket)) == 0 and {id, ticket, expires, ttl, weight}
      end
      local _, ends = struct.unpack('>dd', row)
      if not unheard then
        local there = ends > now and 1 or 0
        if ARGV[3] == '' then return there end
        return {ARGV[3], there}
      end
      unheard.there = ends > now and 1 or 0
    end
  end
end

--@ line.lua

local id = ARGV[1]
local wanted, after, buried = 0, 0, 0
if X then wanted, after, buried = ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0 end

-- Write a tombstone for `ms` milliseconds. A late copy of the claim's join finds it.
local function bury(id, ms, broken)
  local ends = now + ms * 1000
  call('ZADD', X, string.format('%.0f', ends * 2 + broken), id)
  call('ZREMRANGEBYSCORE', X, '-inf', string.format('%.0f', now * 2))
  if call('PTTL', X) < ms then call('PEXPIRE', X, ms) end
  tomb, dirty, lives = math.max(tomb, ends), true, math.max(lives, ms + SHORT)
end

-- The id of the claim with that ticket. Only a break needs it.
local function by_ticket()
  if alone then return struct.unpack('>d', alonerow) == wanted and alone end
  local all = call('HGETALL', H)
  for i = 1, #all, 2 do
    if #all[i] == 32 and struct.unpack('>d', all[i + 1]) == wanted then return all[i] end
  end
  all = waiters > 0 and call('HGETALL', W) or {}
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 1) == 'q' then
      local owner_id, ticket = struct.unpack(WAITS, all[i + 1])
      if ticket == wanted then return owner_id end
    end
  end
end

local function stay_on(row)
  local ticket, _, since, ttl, weight, leaving = struct.unpack(HELD, row)
  if leaving == 1 then return 1 end
  local expires = now + after * 1000
  put[#put + 1] = id
  put[#put + 1] = struct.pack(HELD, ticket, expires, since, math.max(ttl, after), weight, 1)
    .. string.sub(row, WORDS)
  first, alone, dirty, lives = math.min(first, expires), nil, true, after + LIFE
  return 1
end

local function leave()
  if found and found.err then return error(found) end
  if unheard then
    load(call('HGET', H, 's'))
    pass_over(unheard)
    return unheard.there
  end
  load(found)
  local broken = id == ''
  if broken then
    id = by_ticket()
    if not id then return 0 end
  elseif buried > 0 then
    bury(id, buried, 0)
  end
  local row, there, ttl = holder(id)
  if row then
    local _, expires, _, its, weight = struct.unpack(HELD, row)
    there, ttl = expires > now, its
    if after > 0 and there and not broken then return stay_on(row) end
    let_go({id}, weight)
  else
    local seat, waits = waiter(id)
    if not waits then return 0 end
    there, ttl = waits[3] > now, waits[4]
    rise(seat, id)
  end
  if broken then bury(id, ttl + buried, 1) end
  settle()
  return there and 1 or 0
end

return answer(leave, not unheard)
