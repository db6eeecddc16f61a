#!lua flags=allow-oom
-- Release the jobs that a take got, without counting an attempt. A late copy of the take gets
-- nothing.
-- KEYS  see queue.lua
-- ARGV  take, ms of its tombstone, 1 if the queue has several shards, run id, tag
-- ->    the number of jobs; with several shards: 0, that number, the number of waiters to wake
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
-- The take no longer waits either, or a put would wake it instead of another waiter.
local waited = false
for _, member in ipairs(call('ZRANGE', W, 0, -1)) do
  if string.sub(member, 1, #take + 1) == take .. ' ' then
    call('ZREM', W, member)
    waited = true
  end
end
-- If it had been woken for a due job, and so did not wait, wake another waiter.
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
