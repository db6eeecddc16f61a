#!lua flags=allow-oom
-- Wake waiters of this shard for jobs that became due in other shards.
-- KEYS  see queue.lua
-- ARGV  how many, run id, tag
-- ->    the same number
--@ queue.lua

wake(ARGV[1] + 0)
if tag == '' then return ARGV[1] + 0 end
return {tag, ARGV[1] + 0}
