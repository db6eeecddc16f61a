#!lua flags=allow-oom
-- Reserve starts by the rate of a queue whose jobs are in several shards.
-- KEYS  see queue.lua
-- ARGV  limit, microseconds between two starts, burst of the rate, run id, tag
-- ->    0, the number of jobs that may start, and ms until the next one may
--@ queue.lua
keep_time()

local most, pause, burst, count = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, 0
while count < most and start - (burst - 1) * pause <= now do
  start = math.max(start, now) + pause
  count = count + 1
end
local left = math.ceil((start - (burst - 1) * pause - now) / 1000)
return answer({0, count, math.max(0, math.min(1000, left))})
