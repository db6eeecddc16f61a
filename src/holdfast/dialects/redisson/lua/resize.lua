-- Change the number of all permits. Returns the former number; nothing if it was never set.
-- KEYS: the number of free permits, the leases, the former number. ARGV: permits, channel, ms for
-- which claims with the former number are accepted.
--@ family.lua
--@ tagged.lua
local name, leases, former = KEYS[1], KEYS[2], KEYS[3]

local function resize()
  local found = family(name)
  if found == '' then return false end
  if found ~= 'redisson-permits' then return {3, found} end
  local before = redis.call('GET', name) + redis.call('ZCARD', leases)
  local more = tonumber(ARGV[1]) - before
  if more == 0 then return before end
  local free = redis.call('INCRBY', name, more)
  redis.call('SET', former, before, 'PX', ARGV[3])
  if more > 0 and free > 0 then redis.pcall('PUBLISH', ARGV[2], free) end
  return before
end

return tagged(resize())
