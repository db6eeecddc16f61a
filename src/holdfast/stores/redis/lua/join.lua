-- Enter the line.
-- KEYS  state, waiters, tombstones, recovery record
-- ARGV  ttl ms; weight, kind, capacity and words; waiter TTL ms (below 0: don't wait) and address;
--       claim id; run id, tag
-- ->    ticket                          held, with the whole ttl
--       {1, ticket, ms}                 held; ms are left of the lease
--       {2, ticket, position, ms}       waiting; ask again after ms
--       {3, ms, owner}                  busy; ask again after ms
--       {4, kind, capacity}             the name is in use with this kind and capacity
--       {5, waiters}                    the line is full
--       {0, reason}                     the claim has ended
--       {6}                             recovery grants nothing now
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local found = redis.pcall('HGET', KEYS[1], 's')
local guarded = ARGV[5] ~= '' and redis.pcall('GET', KEYS[4]) ~= ARGV[5]
local before = found and #found == 8 and struct.unpack('>d', found) or 0
-- (A ticket is a whole number. A state that was damaged, or cut to this length, is refused below.)
if (not found or #found == 8 and before % 1 == 0 and before >= 0 and before < 9e15)
  and not guarded then
  local ticket = now
  if before >= now then
    ticket = before + 1
  elseif not found and redis.call('HLEN', KEYS[1]) > 0 then
    -- Holders that were left without a state would hold next to this claim. (Delete only if there
    -- are some: before Redis 7.0 a script that has written can also write without memory.)
    redis.call('DEL', KEYS[1])
  end
  redis.call('HSET', KEYS[1], 's',
    ARGV[4] .. struct.pack('>dd', ticket, now + ARGV[1] * 1000) .. ARGV[1] .. ' ' .. ARGV[2])
  -- The last ticket is about the time of the last join: so once in ten minutes, and for a long ttl.
  if ticket - ticket % 6e8 ~= before - before % 6e8 or ARGV[1] + 0 > 600000 then
    redis.call('PEXPIRE', KEYS[1], ARGV[1] + 5400000)
  end
  if ARGV[6] == '' then return ticket end
  return {ARGV[6], ticket}
end
-- Fast path, with the same result as the code below: a try that finds one holder without waiters.
if found and #found > 50 and string.byte(found) ~= 42 and string.byte(ARGV[3]) == 45
  and not guarded and string.sub(found, 1, 32) ~= ARGV[4] then
  local expires = struct.unpack('>d', found, 41)
  local ttl, weight, kind, capacity, bytes, at =
    string.match(found, '^(%d+) (%d+) (%a) (%d+) (%d+) ()', 49)
  local heavy, mine, wanted = string.match(ARGV[2], '^(%d+) (%a) (%d+) ')
  if bytes and expires > now and expires <= now + ttl * 1000 and kind == mine and capacity == wanted
    and heavy + 0 <= capacity + 0 and weight + heavy > capacity + 0 then
    local ms = math.min(1000, math.ceil((expires - now) / 1000))
    local reply = {3, ms, string.sub(found, at, at + bytes - 1)}
    if ARGV[6] == '' then return reply end
    return {ARGV[6], reply}
  end
end
-- Fast path: wait behind other waiters, or behind holders that leave no room.
if found and #found == 74 and string.byte(found) == 42 and not guarded
  and string.byte(ARGV[3]) ~= 45 then
  local mark, kind, capacity, former, used, holders, waiters, headweight,
    first, head, headexp, last, tomb, given =
    struct.unpack('>c1c1I4I4I4I4I4I4dddddd', found)
  local weight, mine, wanted, words = string.match(ARGV[2], '^(%d+) (%a) (%d+) (.*)$')
  weight = weight + 0
  local ahead = weight
  if waiters > 0 then
    local row = headexp == 0 and redis.pcall('HGET', KEYS[2], 'q' .. head)
    if row and #row > 0 then
      local id, ticket, expires, ttl, heavy = struct.unpack('>c32dddI4', row)
      headexp, headweight = expires, heavy
    end
    ahead = headexp > now and headweight or 0
  end
  if now < first and tomb <= now and last > 0 and waiters < 10000 and mine == kind
    and wanted + 0 == capacity and weight <= capacity and ahead > 0 and ahead <= capacity
    and used + ahead > capacity and not redis.call('HGET', KEYS[1], ARGV[4])
    and (waiters == 0 or not redis.call('HGET', KEYS[2], 'i' .. ARGV[4])) then
    local ticket = math.max(now, given + 1)
    local patience, address = string.match(ARGV[3], '^(%d+) (.*)$')
    local expires = now + patience * 1000
    last = last + 1
    redis.call('HSET', KEYS[2], 'i' .. ARGV[4], last, 'q' .. last, struct.pack('>c32dddI4Bc0',
      ARGV[4], ticket, expires, ARGV[1], weight, #address, address) .. words)
    local renew = ticket - ticket % 6e8 ~= given - given % 6e8
    if renew or waiters == 0 then redis.call('PEXPIRE', KEYS[2], 5400000) end
    if waiters == 0 then head, headexp, headweight = last, expires, weight end
    redis.call('HSET', KEYS[1], 's', struct.pack('>c1c1I4I4I4I4I4I4dddddd', '*', kind, capacity,
      former, used, holders, waiters + 1, headweight, first, head, headexp, last, tomb, ticket))
    if renew and redis.call('PTTL', KEYS[1]) < 5400000 then
      redis.call('PEXPIRE', KEYS[1], 5400000)
    end
    local ms = math.max(0, math.min(1000, math.ceil((first - now) / 1000)))
    local reply = {2, ticket, last - head + 1, ms}
    if ARGV[6] == '' then return reply end
    return {ARGV[6], reply}
  end
end

--@ line.lua

local ttl, id = ARGV[1] + 0, ARGV[4]
local patience, address = string.match(ARGV[3], '^-?(%d+) (.*)$')
local weight, mine, mycapacity, words = string.match(ARGV[2], '^(%d+) (%a) (%d+) (.*)$')
patience, weight, mycapacity = patience + 0, weight + 0, mycapacity + 0

-- The owner of the first holder, for a message; of more than 32 holders, of any.
local function ahead()
  if alone then return (owner(string.sub(alonerow, WORDS))) end
  flush()
  local first_ticket, words = NEVER, '0 '
  for _, id in ipairs(holders > 32 and call('HRANDFIELD', H, 2) or call('HKEYS', H)) do
    local row = #id == 32 and call('HGET', H, id)
    local ticket = row and struct.unpack('>d', row)
    if ticket and ticket < first_ticket then
      first_ticket, words = ticket, string.sub(row, WORDS)
    end
  end
  return (owner(words))
end

-- The reply for a claim that is in the line already; a waiter is renewed.
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
  -- A new line has no second key. One that exists is left over from a lost first key.
  if last == 0 and call('HLEN', W) > 0 then call('DEL', W) end
  expires, last = now + patience * 1000, last + 1
  seat_down(last, {id, ticket, expires, ttl, weight, address, words}, renew or waiters == 0)
  if waiters == 0 then head, headexp, headweight = last, expires, weight end
  waiters = waiters + 1
  return {2, ticket, last - head + 1, retry()}
end

local function join()
  if found and found.err then return error(found) end
  if guarded and barred() then return {6} end
  load(found)
  if not found and call('HLEN', H) > 0 then call('DEL', H) end
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

return answer(join)
