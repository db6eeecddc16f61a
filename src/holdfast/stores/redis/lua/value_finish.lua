#!lua
-- Store the value of a refresh lease, and end the lease.
-- KEYS  value, refresh lease (value.lua)
-- ARGV  id, fence, ms for which it is kept, the value; run id, tag
-- ->    1, or 0 if this id no longer has the lease
--@ value.lua
local holder, fence, till = read_state(call('HGET', KEYS[2], 's'))
if holder == ARGV[1] and fence == ARGV[2] + 0 and till > now then
  call('SET', KEYS[1], ARGV[4], 'PX', ARGV[3])
  clear(KEYS[2])
  return answer(1)
end
-- A copy of a request that stored its value gets 1, too.
return answer(read_head(KEYS[1]) == ARGV[2] + 0 and 1 or 0)
