-- One entry of a refresh guard, for all of its scripts; each takes this in behind its own head.
--
-- The value: a string of HEAD and the data, which ends by itself. It is written by `finish` alone,
-- and read without a script.
-- The duty: a hash, there while somebody has the duty, failures count, or a request is buried.
--   s        STATE, the owner, and the reason of the last failure
--   l        'u' and the microseconds of the lease, or of the pause after a failure, as they were asked
--            for: one that ends later shows that the clock was set back
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

-- Could this be a moment, a span or a fence of ours? What couldn't was damaged from outside, and
-- counts as missing: a value is computed again.
local function sane(number)
  return number >= 0 and number < 9e15
end

local function read_state(raw)
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

-- No lease and no pause ends later than was asked for, counted from now: `till` and `pause`, and
-- whether one of them did.
local function bounded(span, till, pause)
  local most = span and tonumber(string.sub(span, 2))
  most = most and now + most
  if not most or (till <= most and pause <= most) then return till, pause, false end
  return math.min(till, most), math.min(pause, most), true
end

-- Version of a value, for how long it is kept when it is fresh no more, and for how long it was to be
-- fresh. Nothing if there is none or it is damaged, false if it is none of ours. `check`: what the
-- name adds up to, where it matters.
local function read_head(key, check)
  local raw = call('GETRANGE', key, 0, HEAD_BYTES - 1)
  if raw == '' then return nil, 0, 0 end
  if string.sub(raw, 1, 3) ~= MARK then return false, 0, 0 end
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

-- The duty ends in any way: nothing is left but what is buried, and who waits is to be woken.
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
