#!lua flags=allow-oom
-- Forget a value, its duty and its failures.
-- KEYS  value, duty (value.lua)
-- ARGV  run id, tag
-- ->    was there a value? 1 or 0
--@ value.lua
if read_head(KEYS[1]) == false then return FOREIGN end
clear(KEYS[2])
return answer(call('DEL', KEYS[1]))
