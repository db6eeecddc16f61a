-- The kind of a name, its capacity, the last token, and per claim whether it is held, its owner,
-- and what is left of its lease in ms. Nothing if there is no claim; for a key of another family an
-- empty text and that family.
-- KEYS: the name, the counter of tokens, the queue, the give-up times, the leases of permits.
-- ARGV: prefix of the leases of readers, '1' to report a semaphore of which no permit is held.
--@ family.lua
--@ clock.lua
--@ tagged.lua
local name, tokens, queue, times, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local rows = {}

local function row(held, owner, left)
  rows[#rows + 1] = {held, owner, left}
end

local function readers_and_writer()
  local fields = redis.call('HGETALL', name)
  for at = 1, #fields, 2 do
    local owner, key = fields[at], name
    if owner ~= 'mode' then
      if not string.find(owner, ':write$') then
        key = ARGV[1] .. ':' .. owner .. ':rwlock_timeout:' .. fields[at + 1]
      end
      local left = redis.call('PTTL', key)
      if left ~= -2 then row(1, owner, left) end
    end
  end
end

local function permits(now)
  local held = redis.call('ZRANGE', leases, 0, -1, 'WITHSCORES')
  for at = 1, #held, 2 do
    local left = tonumber(held[at + 1]) - now
    if left > 0 then row(1, held[at], left) end
  end
  return #held / 2
end

local function waiters(now)
  if redis.call('TYPE', queue).ok ~= 'list' then return end
  for _, owner in ipairs(redis.call('LRANGE', queue, 0, 999)) do
    local left = tonumber(redis.call('ZSCORE', times, owner) or now) - now
    if left > 0 then row(0, owner, left) end
  end
end

local function inspect()
  local found, token = family(name), 0
  if found == 'redisson-rw' then
    readers_and_writer()
  elseif found == 'redisson-permits' then
    local capacity = permits(now_ms()) + redis.call('GET', name)
    return (#rows > 0 or ARGV[2] == '1') and {'semaphore', capacity, token, rows}
  elseif found == 'redisson' then
    row(1, redis.call('HKEYS', name)[1], redis.call('PTTL', name))
    token = tonumber(redis.call('GET', tokens) or 0)
  end
  if found == 'redisson' or found == '' then
    waiters(now_ms())
  elseif #rows == 0 and not string.find(found, '^redisson') then
    return {'', found}
  end
  return #rows > 0 and {found == 'redisson-rw' and 'rwlock' or 'lock', 1, token, rows}
end

return tagged(inspect())
