#!lua flags=no-writes
-- How an entry stands.
-- KEYS  value, duty (value.lua)
-- ARGV  run id, tag
-- ->    ms that are left (below 0: there is no value), its bytes, its head, the state of the duty,
--       now
--@ value.lua
local head = call('GETRANGE', KEYS[1], 0, HEAD_BYTES - 1)
return answer({call('PTTL', KEYS[1]), call('STRLEN', KEYS[1]), head,
  call('HGET', KEYS[2], 's') or '', now})
