#!lua flags=no-writes
-- The live claims of a line, in no order.
-- KEYS  state, waiters, tombstones, recovery record
-- ARGV  run id, tag
-- ->    kind, capacity, and per claim: 1 if held, else 0; ticket; weight; microseconds since it
--       entered or was granted; microseconds left; owner; meta; 1 if it was released and its lease
--       stays, else 0. nil: there is no live claim
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local found = redis.pcall('HGET', KEYS[1], 's')

--@ line.lua

local seen = {}

local function show(held, ticket, weight, since, expires, words, kept)
  if expires <= now then return end
  local name, meta = owner(words)
  local age, left = math.max(0, now - since), expires - now
  for _, part in ipairs({held, ticket, weight, age, left, name, meta, kept}) do
    seen[#seen + 1] = part
  end
end

local function show_holder(row)
  local ticket, expires, since, ttl, weight, kept = struct.unpack(HELD, row)
  show(1, ticket, weight, since, math.min(expires, longest(ttl)), string.sub(row, WORDS), kept)
end

local function inspect()
  if found and found.err then return error(found) end
  load(found)
  -- A read-only script writes nothing.
  dirty = false
  seen = {kind, capacity}
  if alone then
    show_holder(alonerow)
  elseif found then
    local all = call('HGETALL', H)
    for i = 1, #all, 2 do
      if #all[i] == 32 then show_holder(all[i + 1]) end
    end
    all = waiters > 0 and call('HGETALL', W) or {}
    for i = 1, #all, 2 do
      if string.sub(all[i], 1, 1) == 'q' then
        local _, ticket, expires, _, weight, _, at = struct.unpack(WAITS, all[i + 1])
        show(0, ticket, weight, ticket, expires, string.sub(all[i + 1], at), 0)
      end
    end
  end
  return seen[3] and seen or false
end

return answer(inspect)
