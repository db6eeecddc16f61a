-- The family of a key, in the words of families.py; '' if the key is free.
local function family(key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'none' then return '' end
  if kind == 'string' then
    local text = redis.call('GETRANGE', key, 0, 40)
    if not string.find(text, '^%-?%d+$') then return 'plain' end
    return #text < 9 and 'redisson-permits' or 'timestamp'
  end
  if kind ~= 'hash' then return kind end
  if redis.call('HEXISTS', key, 'mode') == 1 then return 'redisson-rw' end
  local line = redis.call('HGET', key, 's')
  if line and #line >= 8 then return 'holdfast' end
  if redis.call('HLEN', key) ~= 1 then return 'hash' end
  local owner = redis.call('HKEYS', key)[1]
  return string.find(owner, '^%x+%-%x+%-%x+%-%x+%-%x+:%-?%d+$') and 'redisson' or 'hash'
end
