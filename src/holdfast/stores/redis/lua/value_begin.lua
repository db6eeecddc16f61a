#!lua flags=allow-oom
-- Take the refresh lease, unless there is a fresh value or another caller has the lease.
-- KEYS  value, refresh lease (value.lua)
-- ARGV  id, lease in µs, the version to replace (0: none), owner, ticket and address of a waiter
--       (''), checksum of the name; run id, tag
-- ->    {1, fence, µs left, failures in a row}; {2, µs to wait}; {2, µs to wait, the reason of the
--       last failure}; {0, ms left, the value}
--@ value.lua
local V, D, id = KEYS[1], KEYS[2], ARGV[1]
local found = call('HMGET', D, 's', 'x' .. id, 'w' .. id, 'l')
local holder, fence, till, failures, pause, row, owner, reason = read_state(found[1])
local late
till, pause, late = bounded(found[4], till, pause)
if late then
  call('HSET', D, 's', struct.pack(STATE, holder, fence, till, failures, pause, row, #owner) .. owner
    .. reason)
end
if holder == id and till > now then return answer({1, fence, till - now, failures}) end
if found[2] and (tonumber(found[2]) or 0) > now then return answer({2, 0}) end

local version, rest, fresh = read_head(V, ARGV[6] + 0)
if version == false then return FOREIGN end
if version and version ~= ARGV[3] + 0 then
  local left = call('PTTL', V)
  -- A value with more time left than it was stored with was stored before the clock was set back.
  if left > rest and left <= fresh + rest + 1000 then
    if found[3] then call('HDEL', D, 'w' .. id) end
    return answer({0, left, call('GET', V)})
  end
end

local held = holder ~= NOBODY and till > now
if held or pause > now then
  if ARGV[5] ~= '' then
    call('HSET', D, 'w' .. id, string.format('%.0f ', now + PATIENCE) .. ARGV[5])
  end
  if held then return answer({2, till - now}) end
  return answer({2, pause - now, reason})
end

fence = math.max(fence + 1, (version or 0) + 1, now)
till = now + ARGV[2]
if failures == 0 then reason = '' end
call('HSET', D, 's', struct.pack(STATE, id, fence, till, failures, 0, row, #ARGV[4]) .. ARGV[4]
  .. reason, 'l', 'u' .. ARGV[2])
if found[3] then call('HDEL', D, 'w' .. id) end
live(D, (math.max(till, row) - now) / 1000 + SLACK)
return answer({1, fence, till - now, failures})
