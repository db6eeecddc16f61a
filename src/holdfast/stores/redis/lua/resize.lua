#!lua flags=allow-oom
-- Change the capacity of a line that isn't empty. Claims with the former one are still accepted.
-- KEYS  state, waiters, tombstones, recovery record
-- ARGV  capacity, run id, tag
-- ->    the former capacity; {4, kind, capacity}: it is no semaphore; nil: the line is empty
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local found = redis.pcall('HGET', KEYS[1], 's')

--@ line.lua

local function resize()
  if found and found.err then return error(found) end
  load(found)
  settle()
  if holders + waiters == 0 then return false end
  if kind ~= 's' then return {4, kind, capacity} end
  local before, wanted = capacity, ARGV[1] + 0
  if wanted ~= before then
    former, capacity, dirty = before, wanted, true
    settle()
  end
  return before
end

return answer(resize)
