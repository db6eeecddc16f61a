#!lua flags=allow-oom
-- Renew leases. It needs one key only, so it works while a slot is being moved.
-- KEYS  deliveries (queue.lua)
-- ARGV  per delivery its take and field, and ttl in µs; run id, tag
-- ->    per delivery 1 if it is still delivered to this take, else 0
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local answers, tag = {}, ARGV[#ARGV]
for i = 1, #ARGV - 3, 2 do
  local ends = redis.call('ZSCORE', KEYS[1], ARGV[i])
  local ours = ends and ends + 0 > now
  if ours then redis.call('ZADD', KEYS[1], 'GT', now + ARGV[i + 1], ARGV[i]) end
  answers[#answers + 1] = ours and 1 or 0
end
if tag == '' then return answers end
return {tag, answers}
