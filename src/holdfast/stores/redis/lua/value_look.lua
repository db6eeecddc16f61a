#!lua flags=no-writes
-- The state of an entry.
-- KEYS  value, refresh lease (value.lua)
-- ARGV  run id, tag
-- ->    ms left (below 0: there is no value), bytes of the value, its head, the state of the
--       refresh lease, now
--@ value.lua
local head = call('GETRANGE', KEYS[1], 0, HEAD_BYTES - 1)
return answer({call('PTTL', KEYS[1]), call('STRLEN', KEYS[1]), head,
  call('HGET', KEYS[2], 's') or '', now})
