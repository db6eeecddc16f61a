-- Release or withdraw everything that this claim has here; 1 if it was held until now.
-- KEYS: the name, the latch, the tombstone, the queue, the give-up times, the leases of permits,
-- and latches of former releases that are no longer needed.
-- ARGV: owner, lease in ms, TTL of the latch in ms (0: none), TTL of the tombstone in ms (0: none),
-- '1' if it is fair, ms that its place has added, channel of locks, channel of read-write locks,
-- channel of semaphores, message after the end of a write, prefix of the leases of readers, stem of
-- the permits.
--@ clock.lua
--@ queue.lua
--@ release.lua
--@ permits.lua
--@ tagged.lua
local name, latch, tombstone = KEYS[1], KEYS[2], KEYS[3]
local latch_ms, buried_ms, share = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[6])
local to = {
  lock = name, queue = KEYS[4], times = KEYS[5], owner = ARGV[1], lease = ARGV[2],
  fair = ARGV[5] == '1', said = ARGV[7], said_rw = ARGV[8], all = ARGV[10], leases = ARGV[11],
}

local function leave()
  for at = 7, #KEYS do redis.call('DEL', KEYS[at]) end
  if latch_ms > 0 and redis.call('EXISTS', latch) == 1 then return 1 end
  if to.fair then step_out(to.queue, to.times, to.owner, share) end
  local kind = redis.call('TYPE', name).ok
  if kind == 'hash' then
    if redis.call('HEXISTS', name, 'mode') == 0 then return end_lock(to) end
    return end_write(to) + end_read(to)
  elseif kind == 'string' then
    return end_permits(name, KEYS[6], ARGV[9], permits_from(KEYS[6], ARGV[12], 0))
  elseif to.fair then
    wake(to)
  end
  return 0
end

local there = leave() > 0 and 1 or 0
if there == 1 and latch_ms > 0 then redis.pcall('SET', latch, 1, 'PX', latch_ms) end
if buried_ms > 0 then redis.pcall('SET', tombstone, 1, 'PX', buried_ms) end
return tagged(there)
