-- The id of the permit at this place of a claim: its stem, and two bytes for the place.
local function permit_of(stem, place)
  return stem .. string.char(math.floor(place / 256), place % 256)
end

-- Recover the permits whose leases have expired. Returns the number of free permits, or false if
-- the number of all permits was never set.
local function free_permits(name, leases, channel, now)
  local over = redis.call('ZRANGEBYSCORE', leases, '-inf', now)
  local free = redis.call('GET', name)
  if #over > 0 then
    redis.call('ZREMRANGEBYSCORE', leases, '-inf', now)
    if free then
      free = redis.call('INCRBY', name, #over)
      if tonumber(free) > 0 then redis.pcall('PUBLISH', channel, free) end
    end
  end
  return free and tonumber(free)
end

-- Release some permits: 1 if none of their leases had expired.
local function end_permits(name, leases, channel, permits)
  local now, removed, late = now_ms(), 0, 0
  for _, permit in ipairs(permits) do
    local until_ms = redis.call('ZSCORE', leases, permit)
    redis.call('ZREM', leases, permit)
    removed = removed + 1
    if tonumber(until_ms) <= now then late = late + 1 end
  end
  if removed == 0 then return 0 end
  redis.pcall('PUBLISH', channel, redis.call('INCRBY', name, removed))
  return late == 0 and 1 or 0
end

-- All permits of a claim from this place on; they are always taken together.
local function permits_from(leases, stem, place)
  local found = {}
  while redis.call('ZSCORE', leases, permit_of(stem, place)) do
    found[#found + 1] = permit_of(stem, place)
    place = place + 1
  end
  return found
end
