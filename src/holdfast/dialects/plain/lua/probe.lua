-- Take the key if it is free, at the least cost: for a client that is notified of changes already.
-- KEYS  key, tombstone
-- ARGV  token, PX or EX, ttl, '', tag
-- ->    1: taken; {2}: not free; {4}: this token has a tombstone
local reply = {2}
if redis.call('SET', KEYS[1], ARGV[1], 'NX', ARGV[2], ARGV[3]) then
  reply = 1
  if redis.call('EXISTS', KEYS[2]) == 1 then
    redis.call('DEL', KEYS[1])
    reply = {4}
  end
end
if ARGV[5] == '' then return reply end
return {ARGV[5], reply}
