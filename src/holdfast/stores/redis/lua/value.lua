-- One entry of a refresh guard, for all of its scripts; each takes this in behind its own head.
--
-- The value: a string of HEAD and the data, which ends by itself. It is written by `finish` alone,
-- and read without a script.
-- The duty: a hash, there while somebody has the duty, failures count, or a request is buried.
--   s        STATE, the owner, and the reason of the last failure
--   w<id>    who waits: until when that is believed, and its ticket and address
--   x<id>    a request for the duty that must get nothing any more: until when
-- Times are microseconds, but for those of the value, which are milliseconds. The last arguments
-- are the run id, which is not looked at here, and the tag.
local string, struct, call = string, struct, redis.call
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local tag = ARGV[#ARGV]
-- The mark, what the name adds up to, version; for how long it is fresh, and kept after that, and
-- after it may be served no more; seconds that it took to compute.
local HEAD, HEAD_BYTES, MARK = '>c3I4ddddd', 47, '\241hf'
-- Who has the duty, under which fence, until when; failures in a row, no duty until, they count
-- until; bytes of the owner.
local STATE, STATE_BYTES, NOBODY = '>c32ddI4ddI2', 70, string.rep('\0', 32)
-- Whoever waits asks again within 1.2 s; who didn't has gone.
local PATIENCE = 3000000
-- What is over is kept so much longer, in milliseconds: those who wait may still be known by it.
local SLACK = 10000
local FOREIGN = redis.error_reply('WRONGTYPE a value that is not one of holdfast')
-- Whom to wake at the end.
local pokes = {}

local function read_state(raw)
  if not raw then return NOBODY, 0, 0, 0, 0, 0, '', '' end
  local id, fence, till, failures, pause, row, bytes = struct.unpack(STATE, raw)
  if row <= now then failures = 0 end
  return id, fence, till, failures, pause, row, string.sub(raw, STATE_BYTES + 1, STATE_BYTES + bytes),
    string.sub(raw, STATE_BYTES + 1 + bytes)
end

-- Version of a value, and for how long it is kept when it is fresh no more. Nothing if there is
-- none, false if it is none of ours.
local function read_head(key)
  local raw = call('GETRANGE', key, 0, HEAD_BYTES - 1)
  if raw == '' then return nil, 0 end
  if #raw < HEAD_BYTES or string.sub(raw, 1, 3) ~= MARK then return false, 0 end
  local _, _, version, _, rest = struct.unpack(HEAD, raw)
  return version, rest
end

local function live(key, milliseconds)
  if call('PTTL', key) < milliseconds then
    call('PEXPIRE', key, string.format('%.0f', milliseconds))
  end
end

local function drop(key, fields)
  for i = 1, #fields, 1000 do
    call('HDEL', key, unpack(fields, i, math.min(#fields, i + 999)))
  end
end

-- The duty ends in any way: nothing is left but what is buried, and who waits is to be woken.
local function clear(key)
  local all, over, kept = call('HGETALL', key), {}, false
  for i = 1, #all, 2 do
    local kind = string.sub(all[i], 1, 1)
    if kind == 'x' and all[i + 1] + 0 > now then
      kept = true
    else
      over[#over + 1] = all[i]
      if kind == 'w' then
        local till, ticket, address = string.match(all[i + 1], '^(%d+) (%d+) (.*)$')
        if till + 0 > now then
          pokes[#pokes + 1] = {address, string.sub(all[i], 2) .. ' ' .. ticket}
        end
      end
    end
  end
  if kept then drop(key, over) else call('DEL', key) end
end

local function answer(reply)
  for _, poke in ipairs(pokes) do
    local publish = string.sub(poke[1], 1, 1) == '{' and 'SPUBLISH' or 'PUBLISH'
    redis.pcall(publish, poke[1], poke[2])
  end
  if tag == '' then return reply end
  return {tag, reply}
end
