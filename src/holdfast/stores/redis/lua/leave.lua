#!lua flags=allow-oom
-- Withdraw, release or break; serves those who fit then.
-- KEYS  state, waiters; in the long form tombstones
-- ARGV  claim id, tag
--   or, long, claim id ('': by its ticket), ticket, ms to stay on, ms of its tombstone (0: none; when
--       broken: beyond its ttl), tag
-- ->    1: it was there; 0: it was not
local found = redis.pcall('HGET', KEYS[1], 's')
if found and #found > 50 and not KEYS[3] and string.find(found, ARGV[1], 1, true) == 1 then
  local clock = redis.call('TIME')
  redis.call('HSET', KEYS[1], 's', string.sub(found, 33, 40))
  local there = struct.unpack('>d', found, 41) - clock[2] > clock[1] * 1000000 and 1 or 0
  if ARGV[2] == '' then return there end
  return {ARGV[2], there}
end
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

--@ line.lua

local id = ARGV[1]
local wanted, after, buried = 0, 0, 0
if KEYS[3] then wanted, after, buried = ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0 end

-- Holder's id, or seat, of the claim with that ticket; only a break is in need of it.
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
  put[#put + 1] = struct.pack(HELD, ticket, expires, since, ttl, weight, 1)
    .. string.sub(row, WORDS)
  first, alone, dirty, lives = math.min(first, expires), nil, true, after + LIFE
  return 1
end

local function leave()
  if found and found.err then return error(found) end
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

return answer(leave, ARGV[#ARGV])
