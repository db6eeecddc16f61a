-- Recovery: notice a server that has lost acknowledged data. It was started without its data or
-- with old data, or it is a replica that missed the last writes. Each bucket has a record:
--   "<run id>"                       the server of the latest grants
--   "<run id> <until> <cause>"       a server that grants nothing before that time, so that holders
--                                    can renew first
-- KEYS  records
-- ARGV  grace period ms; 1 if strict; ms for which the caller has known this server; 1 if it knew
--       another one before; the latest fence that it knows (0: none); the id of the server that it
--       knows; run id of the connection ('': unknown), tag
-- ->    {run id, ms until grants are possible (0: now), cause, record}; {run id} if all records
--       have the run id of the connection
--       that found nothing new
local call = redis.call
local run, tag = ARGV[7], ARGV[8]
-- A younger server may have replaced one on which leases of usual length still run.
local YOUNG = 30000000
-- Maximum microseconds by which the clock may be behind the latest fence to be waited for.
local BEHIND = 60000000

local function answer(reply)
  if tag == '' then return reply end
  return {tag, reply}
end

local function get(key)
  local record = redis.pcall('GET', key)
  if type(record) ~= 'table' then return record end
  if not string.find(record.err, 'WRONGTYPE', 1, true) then return error(record) end
  local text = ' is a ' .. call('TYPE', key).ok .. ', not a string'
  return error({err = 'WRONGTYPE the key ' .. key .. text})
end

-- Whether all records have this run id. A damaged record is replaced, or it would block its bucket.
local function known_by_all()
  for _, key in ipairs(KEYS) do
    if get(key) ~= run then return false end
  end
  return true
end

local function looked()
  if run ~= '' and known_by_all() then return {run} end
  local clock = call('TIME')
  local now = clock[1] * 1000000 + clock[2]
  local said = call('INFO', 'server')
  local copied = call('INFO', 'replication')
  local id = string.match(said, 'run_id:(%x+)')
  -- The uptime is a difference of whole seconds, so the true one can be almost a second less.
  local up = string.match(said, 'uptime_in_seconds:(%d+)')
  if not id or not up then return {'', 0, '', ''} end
  -- A promoted server counts as another server; it may have been the primary before.
  local promoted = string.match(copied, 'second_repl_offset:(%d+)')
  if promoted then id = id .. '.' .. promoted end
  local window, strict, known = ARGV[1] * 1000, ARGV[2] == '1', ARGV[3] * 1000
  up = math.max(0, (up - 1) * 1000000 + clock[2])
  -- Strict recovery also protects leases that are as long as its grace period.
  local YOUNG = strict and math.max(YOUNG, window) or YOUNG
  local former = ARGV[4] == '1'
  if ARGV[6] ~= id then
    known, former = 0, former or ARGV[6] ~= ''
  end
  -- The caller saw this server replace another one less than a grace period ago.
  local replaced = former and known < window
  -- In a cluster, the record of another server came with its slot, and so did all of the data. That
  -- doesn't hold if this server was a replica, which can have missed writes. Nor if it is young, or
  -- has just replaced another one for the caller: then the record can be its own from before a
  -- restart, because loading can take longer than the grace period.
  local comes = not promoted and not replaced and up >= YOUNG
    and string.find(call('INFO', 'cluster'), 'cluster_enabled:1')
  local latest = ARGV[5] + 0
  -- Fences must not fall: the grace period lasts until the clock has reached the latest one.
  local function reaching(moment)
    if latest > moment and latest - now <= BEHIND then return latest end
    return moment
  end
  -- A grace period starts with the first request, because before that no client may have reached
  -- the server. The time for which the caller has known the server counts.
  local opened = reaching(now + math.max(0, window - known))
  -- The latest possible end of a record. A later one was written before the clock was set back.
  local longest = now + window + BEHIND

  -- Whether the server has counted a command that removes all keys. It counts for all databases
  -- together, so another one may be meant. Only strict recovery uses this, because it waits then.
  local function flushed()
    local seen = call('INFO', 'commandstats')
    for _, name in ipairs({'flushdb', 'flushall', 'swapdb'}) do
      if string.find(seen, 'cmdstat_' .. name .. ':calls=[1-9]') then return true end
    end
    return false
  end

  -- The reason why the data of a bucket without a record may be lost, and the end if it is special.
  -- nil on a server that is used for the first time.
  local function missing()
    if promoted then return 'promoted' end
    if strict and (flushed() or string.find(call('INFO', 'stats'), 'evicted_keys:[1-9]')) then
      -- That can have happened after the server's start.
      return 'lost', now + window
    end
    if replaced or up < YOUNG then return 'restarted' end
  end

  local worst, why, found = 0, '', id
  for _, key in ipairs(KEYS) do
    local record = get(key)
    local until_, cause
    local server = record and string.match(record, '^%S*')
    -- Without replicas the server forgets after an hour that it was promoted.
    if server and not promoted then server = string.match(server, '^%x*') end
    if server == id then
      until_, cause = string.match(record, ' (%d+) (%a)$')
      if until_ and until_ + 0 > longest then until_ = opened end
    elseif record and comes then
      until_, cause = string.match(record, ' (%d+) (%a)$')
    elseif record then
      until_, cause = opened, not promoted and up < YOUNG and 'restarted' or 'promoted'
    else
      local later
      cause, later = missing()
      until_ = cause and (later or opened)
    end
    until_ = (until_ or 0) + 0
    -- Another client may have written it that knew no fence as late as this one.
    if until_ > now then until_ = reaching(until_) end
    local written = id
    if until_ > now then
      written = id .. string.format(' %.0f ', until_) .. string.sub(cause, 1, 1)
      if until_ > worst then worst, why, found = until_, string.sub(cause, 1, 1), written end
    end
    if written ~= record then call('SET', key, written) end
  end
  return {id, worst > 0 and math.ceil((worst - now) / 1000) or 0, why, found}
end

local done, reply = pcall(looked)
if not done then return type(reply) == 'table' and reply or {err = reply} end
return answer(reply)
