-- One entry of a refresh guard, for all of its scripts. Each includes this after its own head.
--
-- The value: a string of HEAD and the data, which expires by itself. Only `finish` writes it, and
-- it is read without a script.
-- The refresh lease: a hash that exists while a caller has the lease, failures count, or there is a
-- tombstone.
--   s        STATE, the owner, and the reason of the last failure
--   l        'u' and the requested microseconds of the lease, or of the pause after a failure: a
--            later end shows that the clock was set back
--   w<id>    a waiter: the time until which it counts as one, and its ticket and address
--   x<id>    the tombstone of a request for the lease: until when
-- Times are microseconds, but for those of the value, which are milliseconds. The last arguments
-- are the run id, which is not used here, and the tag.
local string, struct, call = string, struct, redis.call
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local tag = ARGV[#ARGV]
-- The mark, checksum of the name, version; the time for which it is fresh, the time for which it is
-- kept after that, the last part of that, in which it may not be served; cost in seconds.
local HEAD, HEAD_BYTES, MARK = '>c3I4ddddd', 47, '\241hf'
-- The id that has the refresh lease, its fence, its end; failures in a row, no lease before,
-- failures count until; bytes of the owner.
local STATE, STATE_BYTES, NOBODY = '>c32ddI4ddI2', 70, string.rep('\0', 32)
-- A waiter asks again within 1.2 s. One that did not in this time is gone.
local PATIENCE = 3000000
-- Milliseconds for which the hash is kept after its end, because it lists the waiters.
local SLACK = 10000
local FOREIGN = redis.error_reply('WRONGTYPE a value that is not one of holdfast')
-- Waiters to wake at the end: {address, message} each.
local pokes = {}

-- Whether this can be a time, a span or a fence. A number that can't be was damaged from outside
-- and counts as missing: a value is computed again.
local function sane(number)
  return number >= 0 and number < 9e15
end

--@ layout.lua

local function read_state(raw)
  if raw then layout(raw) end
  if not raw or #raw < STATE_BYTES then return NOBODY, 0, 0, 0, 0, 0, '', '' end
  local id, fence, till, failures, pause, row, bytes = struct.unpack(STATE, raw)
  if not (sane(fence) and fence % 1 == 0 and sane(till) and sane(pause) and sane(row))
    or #raw < STATE_BYTES + bytes then
    return NOBODY, 0, 0, 0, 0, 0, '', ''
  end
  if row <= now then failures = 0 end
  return id, fence, till, failures, pause, row, string.sub(raw, STATE_BYTES + 1, STATE_BYTES + bytes),
    string.sub(raw, STATE_BYTES + 1 + bytes)
end

-- Limit the ends of lease and pause to the requested span from now: `till`, `pause`, and whether
-- one of them was later.
local function bounded(span, till, pause)
  local most = span and tonumber(string.sub(span, 2))
  most = most and now + most
  if not most or (till <= most and pause <= most) then return till, pause, false end
  return math.min(till, most), math.min(pause, most), true
end

-- The version of a value, the time for which it is kept after it was fresh, and the time for which
-- it is fresh. nil if there is none or it is damaged, false if it is not one of holdfast. `check`:
-- the checksum that the name must have, where it matters.
local function read_head(key, check)
  local raw = call('GETRANGE', key, 0, HEAD_BYTES - 1)
  if raw == '' then return nil, 0, 0 end
  if string.sub(raw, 1, 3) ~= MARK then
    if string.sub(raw, 1, 2) == string.sub(MARK, 1, 2) then layout(string.sub(raw, 3)) end
    return false, 0, 0
  end
  if #raw < HEAD_BYTES then return nil, 0, 0 end
  local _, whose, version, fresh, rest = struct.unpack(HEAD, raw)
  if not sane(version) or version % 1 ~= 0 or (check and whose ~= check) then return nil, 0, 0 end
  return version, rest, fresh
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

-- The refresh lease ends: keep only tombstones, and wake the waiters.
local function clear(key)
  local all, over, kept = call('HGETALL', key), {}, false
  for i = 1, #all, 2 do
    local kind = string.sub(all[i], 1, 1)
    if kind == 'x' and (tonumber(all[i + 1]) or 0) > now then
      kept = true
    else
      over[#over + 1] = all[i]
      if kind == 'w' then
        local till, ticket, address = string.match(all[i + 1], '^(%d+) (%d+) (.*)$')
        if till and till + 0 > now then
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
