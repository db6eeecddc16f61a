-- Enter the line.
-- KEYS  state, waiters, tombstones, and the guard if it is to be asked
-- ARGV  ttl ms; weight, kind, capacity and words; patience ms (below 0: don't wait) and address;
--       claim id; run id if there is a guard; tag
-- ->    ticket                          held, with the whole ttl
--       {1, ticket, ms}                 held, this is left of it
--       {2, ticket, position, ms}       waiting; ask again then
--       {3, ms, owner}                  would have to wait
--       {4, kind, capacity}             in use as something else
--       {5, waiters}                    the line is full
--       {0, reason}                     gone
--       {6}                             the guard lets nobody in
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local found = redis.pcall('HGET', KEYS[1], 's')
local guarded = KEYS[4] and redis.call('GET', KEYS[4]) ~= ARGV[5]
if (not found or #found == 8) and not guarded then
  local ticket, before = now, 0
  if found then
    before = struct.unpack('>d', found)
    if before >= now then ticket = before + 1 end
  end
  redis.call('HSET', KEYS[1], 's',
    ARGV[4] .. struct.pack('>dd', ticket, now + ARGV[1] * 1000) .. ARGV[1] .. ' ' .. ARGV[2])
  -- The last ticket is the time of the last join: so once in ten minutes, and for a long ttl.
  if ticket - ticket % 6e8 ~= before - before % 6e8 or ARGV[1] + 0 > 600000 then
    redis.call('PEXPIRE', KEYS[1], ARGV[1] + 5400000)
  end
  local tag = ARGV[6] or ARGV[5]
  if tag == '' then return ticket end
  return {tag, ticket}
end

--@ line.lua

local ttl, id, tag = ARGV[1] + 0, ARGV[4], ARGV[6] or ARGV[5]
local patience, address = string.match(ARGV[3], '^-?(%d+) (.*)$')
local weight, mine, mycapacity, words = string.match(ARGV[2], '^(%d+) (%a) (%d+) (.*)$')
patience, weight, mycapacity = patience + 0, weight + 0, mycapacity + 0

-- It is in the line already: its standing, kept alive if it waits.
local function again()
  local row = holder(id)
  if row then
    local ticket, expires, _, _, _, leaving = struct.unpack(HELD, row)
    if leaving == 1 or expires <= now then return {0, 'expired'} end
    return {1, ticket, math.floor((expires - now) / 1000)}
  end
  local seat, waits = waiter(id)
  if not waits then return end
  if waits[3] <= now then return {0, 'expired'} end
  stay(seat, waits, patience, address)
  return {2, waits[2], seat - head + 1, retry()}
end

local function enter(wait)
  local ticket = math.max(now, given + 1)
  local renew = window(ticket) ~= window(given)
  if renew or ttl > SHORT then lives = ttl + LIFE end
  given, dirty = ticket, true
  local expires = now + ttl * 1000
  if not wait and holders + waiters == 0 and tomb <= now then
    call('HSET', H, 's', struct.pack(LONE, id, ticket, expires) .. ttl .. ' ' .. ARGV[2])
    dirty = false
    return ticket
  end
  if not wait then
    hold(id, struct.pack(HELD, ticket, expires, now, ttl, weight, 0) .. words, expires, weight)
    return ticket
  end
  -- A line that has just begun has no second key; what is there is left from a lost first one.
  if last == 0 and call('HLEN', W) > 0 then call('DEL', W) end
  expires, last = now + patience * 1000, last + 1
  seat_down(last, {id, ticket, expires, ttl, weight, address, words}, renew or waiters == 0)
  if waiters == 0 then head, headexp, headweight = last, expires, weight end
  waiters = waiters + 1
  return {2, ticket, last - head + 1, retry()}
end

local function join()
  if found and found.err then return error(found) end
  if guarded then return {6} end
  load(found)
  local reason = tombstone(id)
  if reason then return {0, reason} end
  settle()
  if holders + waiters == 0 then
    kind, capacity, former = mine, mycapacity, 0
    return enter(false)
  end
  local standing = again()
  if standing then return standing end
  if kind ~= mine or (mycapacity ~= capacity and mycapacity ~= former) or weight > capacity then
    return {4, kind, capacity}
  end
  if waiters == 0 and used + weight <= capacity then return enter(false) end
  if string.sub(ARGV[3], 1, 1) == '-' then return {3, retry(), ahead()} end
  if waiters >= 10000 then return {5, waiters} end
  return enter(true)
end

return answer(join, tag)
