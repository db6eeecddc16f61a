-- Renew holds: per hold 1 if it still exists, else 0, or a text: the error. Holds of other owners
-- are not renewed.
-- KEYS: per hold the lock, or the leases of a semaphore, and the lease of a reader.
-- ARGV: per hold its kind, its lease in ms, its owner or the stem of its permits, their number.
--@ clock.lua
--@ permits.lua
--@ tagged.lua
local renew = {}

function renew.lock(lock, _, lease, owner)
  if redis.call('HEXISTS', lock, owner) == 0 then return 0 end
  return redis.call('PEXPIRE', lock, lease)
end

function renew.read(lock, mine, lease, owner)
  if redis.call('HEXISTS', lock, owner) == 0 then return 0 end
  if redis.call('PEXPIRE', mine, lease) == 0 then return 0 end
  if redis.call('PTTL', lock) < tonumber(lease) then redis.call('PEXPIRE', lock, lease) end
  return 1
end

function renew.permit(leases, _, lease, stem, many)
  local now = now_ms()
  for place = 0, many - 1 do
    local until_ms = redis.call('ZSCORE', leases, permit_of(stem, place))
    if not until_ms or tonumber(until_ms) <= now then return 0 end
  end
  for place = 0, many - 1 do
    redis.call('ZADD', leases, string.format('%.0f', now + lease), permit_of(stem, place))
  end
  return 1
end

local answers = {}
for at = 0, #KEYS / 2 - 1 do
  local kind, lease, owner, many = unpack(ARGV, 4 * at + 1, 4 * at + 4)
  local ok, said = pcall(renew[kind], KEYS[2 * at + 1], KEYS[2 * at + 2], lease, owner, many)
  if not ok then said = type(said) == 'table' and said.err or tostring(said) end
  answers[at + 1] = said
end
return tagged(answers)
