#!lua flags=allow-oom
-- End a refresh lease without a value.
-- KEYS  refresh lease (value.lua)
-- ARGV  id, µs in which no caller gets the lease (0: it is no failure), µs for which the failure
--       counts, its reason, µs of the tombstone of the request (0: none); run id, tag
-- ->    1, or 0 if this id did not have the lease
--@ value.lua
local D, id, wait, bury = KEYS[1], ARGV[1], ARGV[2] + 0, ARGV[5] + 0
local holder, fence, till, failures, pause, row, owner, reason = read_state(call('HGET', D, 's'))
local ours = holder == id and till > now
if ours then
  clear(D)
  pause = 0
  if wait > 0 then
    failures, pause, row, reason = failures + 1, now + wait, now + math.max(ARGV[3], wait), ARGV[4]
  end
  if failures > 0 then
    call('HSET', D, 's', struct.pack(STATE, NOBODY, fence, 0, failures, pause, row, 0) .. reason,
      'l', 'u' .. ARGV[2])
    live(D, (row - now) / 1000 + SLACK)
  end
else
  call('HDEL', D, 'w' .. id)
end
if bury > 0 then
  call('HSET', D, 'x' .. id, string.format('%.0f', now + bury))
  live(D, bury / 1000)
end
return answer(ours and 1 or 0)
