-- Take permits. If permits are only counted, only those of holdfast have leases, and the number of
-- all permits is unknown.
-- KEYS: the number of free permits, the leases, the tombstone, the former number of all of them.
-- ARGV: lease in ms, number of all permits, channel, stem, number to take, '1' if they are only
-- counted.
--@ family.lua
--@ clock.lua
--@ permits.lua
--@ tagged.lua

local function join()
  local name, leases, tombstone = KEYS[1], KEYS[2], KEYS[3]
  local lease, capacity, channel = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
  local stem, wanted = ARGV[4], tonumber(ARGV[5])
  local found = family(name)
  if found ~= '' and found ~= 'redisson-permits' then return {3, found} end
  if redis.call('EXISTS', tombstone) == 1 then return {0} end
  local now = now_ms()
  local free = free_permits(name, leases, channel, now)
  local held = redis.call('ZCARD', leases)
  if not free then
    free = capacity - held
    redis.call('SET', name, free)
  end
  local all, counted = free + held, ARGV[6] == '1'
  local agreed = counted or all == capacity or redis.call('GET', KEYS[4]) == ARGV[2]
  if not agreed or wanted > all and not counted then return {4, all} end
  local mine = redis.call('ZSCORE', leases, permit_of(stem, 0))
  if mine then return {1, tonumber(mine) - now, 1} end
  if free >= wanted then
    redis.call('DECRBY', name, wanted)
    for place = 0, wanted - 1 do
      redis.call('ZADD', leases, string.format('%.0f', now + lease), permit_of(stem, place))
    end
    return {1, lease, 1}
  end
  local first = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')
  return {2, first[2] and tonumber(first[2]) - now or -1, '', held}
end

return tagged(join())
