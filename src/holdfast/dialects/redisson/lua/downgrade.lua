-- Make a writer a reader, so that others can read, too. A claim that is a reader is renewed. 1 if
-- it is a reader now.
-- KEYS: the lock, the lease of the reader. ARGV: lease in ms, owner, channel, message that wakes
-- all.
--@ tagged.lua
local lock, mine, lease, owner = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

local function downgrade()
  local writes = redis.call('HDEL', lock, owner .. ':write') == 1
  if writes then
    redis.call('HSET', lock, 'mode', 'read', owner, 1)
    redis.call('SET', mine, 1, 'PX', lease)
  elseif redis.call('HEXISTS', lock, owner) == 0 or redis.call('PEXPIRE', mine, lease) == 0 then
    return 0
  end
  if redis.call('PTTL', lock) < tonumber(lease) then redis.call('PEXPIRE', lock, lease) end
  if writes then redis.pcall('PUBLISH', ARGV[3], ARGV[4]) end
  return 1
end

return tagged(downgrade())
