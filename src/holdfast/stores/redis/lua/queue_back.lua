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
-- Nor does it wait: what is put would wake it in the place of another.
local waited = false
for _, member in ipairs(call('ZRANGE', W, 0, -1)) do
  if string.sub(member, 1, #take + 1) == take .. ' ' then
    call('ZREM', W, member)
    waited = true
  end
end
-- If it waits no more, because it was woken for what is due, another one is.
if due == 0 and not waited then
  if first < next_ then rouse(now) end
  for _, key in ipairs({D, P}) do
    local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if head[2] then rouse(head[2] + 0) end
  end
  due = math.min(due, 1)
end
local reply = count
if ARGV[3] == '1' then reply = {0, count, due} end
return answer(reply)
