#!lua flags=allow-oom
-- Wake those who wait here for what became due in other shards.
-- KEYS  see queue.lua
-- ARGV  how many, run id, tag
-- ->    how many
--@ queue.lua

wake(ARGV[1] + 0)
if tag == '' then return ARGV[1] + 0 end
return {tag, ARGV[1] + 0}
