-- End the hold of an owner, however often it was entered, or its wait; 1 if there was one.
-- KEYS and ARGV: as of leave.lua; but the owner of a write lock ends in ':write', and the owner of
-- permits is the id of the first one.
--@ clock.lua
--@ queue.lua
--@ release.lua
--@ permits.lua
--@ tagged.lua
local name, owner = KEYS[1], ARGV[1]
local to = {
  lock = name, queue = KEYS[4], times = KEYS[5], owner = owner, lease = ARGV[2],
  fair = ARGV[5] == '1', said = ARGV[7], said_rw = ARGV[8], all = ARGV[10], leases = ARGV[11],
}

local function break_hold()
  if to.fair and step_out(to.queue, to.times, owner, tonumber(ARGV[6])) then return 1 end
  local kind = redis.call('TYPE', name).ok
  if kind == 'string' then
    local stem, high, low = string.sub(owner, 1, -3), string.byte(owner, -2, -1)
    local permits = permits_from(KEYS[6], stem, high * 256 + low)
    return end_permits(name, KEYS[6], ARGV[9], permits)
  end
  if kind ~= 'hash' or redis.call('HEXISTS', name, owner) == 0 then return 0 end
  redis.call('HSET', name, owner, 1)
  if redis.call('HEXISTS', name, 'mode') == 0 then return end_lock(to) end
  local writer = string.match(owner, '^(.*):write$')
  if not writer then return end_read(to) end
  to.owner = writer
  return end_write(to)
end

return tagged(break_hold())
