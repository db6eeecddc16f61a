-- Take the key if it is free. Read it first, so that a client with tracking is notified of its next
-- change.
-- KEYS  key, tombstone
-- ARGV  token, its mark, PX or EX, ttl, '', tag
-- ->    1: taken; {1, ms}: taken already, by this token; {2, ms}: by another (-1: without a TTL);
--       {4}: this token has a tombstone; {9, family}: the key is of another family
--@ ../../lua/family.lua
local key, mark, tag = KEYS[1], ARGV[2], ARGV[6]
local function answer(reply)
  if tag == '' then return reply end
  return {tag, reply}
end
local held = redis.pcall('GET', key)
if held == false then
  if redis.call('EXISTS', KEYS[2]) == 1 then return answer({4}) end
  redis.call('SET', key, ARGV[1], ARGV[3], ARGV[4])
  return answer(1)
end
if type(held) == 'table' then return answer({9, family(key)}) end
local left = redis.call('PTTL', key)
if string.sub(held, 1, #mark) == mark then return answer({1, left}) end
if stamped(held, left) then return answer({9, 'timestamp'}) end
return answer({2, left})
