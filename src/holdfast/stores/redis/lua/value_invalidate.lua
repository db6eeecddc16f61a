#!lua flags=allow-oom
-- Remove a value, its refresh lease and its failures.
-- KEYS  value, refresh lease (value.lua)
-- ARGV  run id, tag
-- ->    1 if there was a value, else 0
--@ value.lua
if read_head(KEYS[1]) == false then return FOREIGN end
clear(KEYS[2])
return answer(call('DEL', KEYS[1]))
