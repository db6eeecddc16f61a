#!lua flags=allow-oom
-- Return what a take got, as if it had not been taken; a late copy of it gets nothing.
-- KEYS  see queue.lua
-- ARGV  take, ms of its tombstone, 1 if others wait elsewhere, run id, tag
-- ->    how many; if others wait elsewhere, 0, it, and how many are to be woken
--@ queue.lua
keep_time()

local take = ARGV[1]
reap()
bury(take, ARGV[2])
local known, count = known_take(take), 0
for _, field in ipairs(known and fields_of(known) or {}) do
  if call('ZSCORE', E, take .. field) then
    finish(take, known, field, 'b', now, 0, '')
    count = count + 1
  end
end
local reply = count
if ARGV[3] == '1' then reply = {0, count, due} end
return answer(reply)
