#!lua flags=allow-oom
-- Renew a refresh lease. It needs one key only, so it works while a slot is being moved.
-- KEYS  refresh lease (value.lua)
-- ARGV  id, fence, lease in µs; run id, tag
-- ->    1, or 0 if this id no longer has the lease
--@ value.lua
local D = KEYS[1]
local holder, fence, till, failures, pause, row, owner, reason = read_state(call('HGET', D, 's'))
if holder ~= ARGV[1] or fence ~= ARGV[2] + 0 or till <= now then return answer(0) end
till = now + ARGV[3]
call('HSET', D, 's', struct.pack(STATE, holder, fence, till, failures, pause, row, #owner) .. owner
  .. reason, 'l', 'u' .. ARGV[3])
live(D, (math.max(till, row) - now) / 1000 + SLACK)
if call('HLEN', D) > 2 then
  -- Remove waiters that are gone, and tombstones that have ended.
  local all, over = call('HGETALL', D), {}
  for i = 1, #all, 2 do
    local moment = all[i] ~= 's' and string.match(all[i + 1], '^%d+')
    if moment and moment + 0 <= now then over[#over + 1] = all[i] end
  end
  drop(D, over)
end
return answer(1)
