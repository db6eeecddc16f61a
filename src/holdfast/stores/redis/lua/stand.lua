#!lua flags=allow-oom
-- Renew one hold, or one waiter, which is granted here if its turn has come. A hold can also become
-- lighter, or change its id and its owner (handover).
-- KEYS  state, waiters, tombstones, recovery record
-- ARGV  claim id, ttl ms, waiter TTL ms (0: a waiter counts as gone), address ('': unchanged),
--       weight (0: unchanged), new id ('': unchanged), its owner, run id, tag
-- ->    as join.lua: ticket, {2, ...} or {0, ...}; {6, ...}: as {2, ...}, and a waiter fits, but
--       recovery grants nothing now
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local found = redis.pcall('HGET', KEYS[1], 's')

--@ line.lua

local id, ttl, patience, address = ARGV[1], ARGV[2] + 0, ARGV[3] + 0, ARGV[4]
local lighter, fresh, adopter = ARGV[5] + 0, ARGV[6], ARGV[7]

local function gone(why)
  settle()
  return {0, why}
end

-- The row of a waiter that is granted now; or else nil and the reply.
local function wait()
  local seat, waits = waiter(id)
  if not waits or patience == 0 then return nil, {0, tombstone(id) or 'expired'} end
  if waits[3] <= now then return nil, gone('expired') end
  stay(seat, waits, patience, address)
  settle()
  for i, row in ipairs(pokes) do
    if row[1] == id then table.remove(pokes, i) break end
  end
  local row = holder(id)
  if row then return row end
  seat, waits = waiter(id)
  -- It may have been too heavy for a capacity that was reduced.
  if not waits then return nil, {0, 'expired'} end
  return nil, {shut and 6 or 2, waits[2], seat - head + 1, retry()}
end

local function renew(row)
  local ticket, expires, since, before, weight, leaving = struct.unpack(HELD, row)
  if leaving == 1 or expires <= now then return gone('expired') end
  -- The adopter withdrew the new id before this request arrived.
  local withdrawn = fresh ~= '' and fresh ~= id and tombstone(fresh)
  if withdrawn then return gone(withdrawn) end
  local until_, lease = renewed(expires, before, ttl)
  if window(expires) ~= window(until_) or ttl > SHORT then lives = ttl + LIFE end
  local words = string.sub(row, WORDS)
  if lighter > 0 and lighter < weight then
    used, weight = used - weight + lighter, lighter
  end
  if fresh ~= '' then
    local _, meta = owner(words)
    words = #adopter .. ' ' .. adopter .. meta
    if not alone then call('HDEL', H, id) end
    id = fresh
  end
  alone, dirty = nil, true
  put[#put + 1] = id
  put[#put + 1] = struct.pack(HELD, ticket, until_, since, lease, weight, 0) .. words
  first = holders == 1 and until_ or math.min(first, until_)
  settle()
  return ticket
end

local function stand()
  if found and found.err then return error(found) end
  load(found)
  local row = fresh ~= '' and holder(fresh)
  if row then
    id = fresh
  else
    row = holder(id)
  end
  local answered
  if not row then row, answered = wait() end
  return answered or renew(row)
end

return answer(stand)
