-- True if this string is the expiry time of a timestamp lock. Such a key has no TTL.
local function stamped(held, left)
  return left == -1 and #held >= 10 and #held <= 14 and string.find(held, '^1%d+$')
end
-- The family of a key that is not a string: see families.py.
local function family(key)
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'hash' then return kind end
  if redis.call('HEXISTS', key, 'mode') == 1 then return 'redisson-rw' end
  local line = redis.call('HGET', key, 's')
  if line and #line >= 8 then return 'holdfast' end
  return 'redisson'
end
