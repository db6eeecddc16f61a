-- Enter the line.
-- KEYS  state, waiters, tombstones, and the guard if it is to be asked
-- ARGV  ttl ms, words, patience ms (below 0: the same, but don't wait), address, run id, claim id,
--       tag
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
local found = redis.pcall('HMGET', KEYS[1], 't', 's')
if not found[2] and not found.err and not KEYS[4] then
  local ticket, last = now, found[1]
  if last then
    last = last + 0
    if last >= now then ticket = last + 1 end
  end
  redis.call('HSET', KEYS[1], 't', string.format('%.0f', ticket),
    's', string.format('%s %016.0f %s ', ARGV[6], now + ARGV[1] * 1000, ARGV[1]) .. ARGV[2])
  -- `t` is the time of the last join, so this is done once in ten minutes, and for a long ttl.
  if not last or ticket - ticket % 6e8 ~= last - last % 6e8 or ARGV[1] + 0 > 600000 then
    redis.call('PEXPIRE', KEYS[1], ARGV[1] + 5400000)
  end
  if ARGV[7] == '' then return ticket end
  return {ARGV[7], ticket}
end

--@ line.lua

local ttl, patience, address, id = ARGV[1] + 0, math.abs(ARGV[3]), ARGV[4], ARGV[6]
local weight, mine, mycapacity, words = string.match(ARGV[2], '^(%d+) (%a) (%d+) (.*)$')
weight, mycapacity = weight + 0, mycapacity + 0

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
  local ticket, before = now, (found[1] or 0) + 0
  if before >= now then ticket = before + 1 end
  local renew = window(ticket) ~= window(before)
  if renew or ttl > SHORT then lives = ttl + LIFE end
  put[#put + 1] = 't'
  put[#put + 1] = string.format('%.0f', ticket)
  if not wait and holders + waiters == 0 and tomb <= now then
    put[#put + 1] = 's'
    put[#put + 1] = string.format('%s %016.0f %s ', id, now + ttl * 1000, ttl) .. ARGV[2]
    flush()
    dirty = false
    return ticket
  end
  if not wait then
    local expires = now + ttl * 1000
    hold(id, struct.pack(HELD, ticket, expires, now, ttl, weight, 0) .. words, expires, weight)
    return ticket
  end
  -- A line that has just begun has no second key; what is there is left from a lost first one.
  if last == 0 and call('HLEN', W) > 0 then call('DEL', W) end
  local expires = now + patience * 1000
  last = last + 1
  seat_down(last, {id, ticket, expires, ttl, weight, address, words}, renew or waiters == 0)
  if waiters == 0 then head, headexp, headweight = last, expires, weight end
  waiters, dirty = waiters + 1, true
  return {2, ticket, last - head + 1, retry()}
end

local function join()
  if found.err then return error(found) end
  if KEYS[4] and call('GET', KEYS[4]) ~= ARGV[5] then return {6} end
  load(found[2], found[1])
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
  if ARGV[3] + 0 < 0 then return {3, retry(), ahead()} end
  if waiters >= 10000 then return {5, waiters} end
  return enter(true)
end

return answer(join, ARGV[7])
