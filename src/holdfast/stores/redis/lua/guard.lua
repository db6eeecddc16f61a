-- The guard against a server that has lost what it had acknowledged: it was started without its
-- data or with old data, or it is a replica that missed the last writes. Each bucket has a record:
--   "<run id>"                       the server that gave the latest grants
--   "<run id> <until> <cause>"       a server on which nobody is let in before that time, so that
--                                    those who hold can say so first
-- KEYS  records
-- ARGV  window ms; 1 if strict; for how many ms the caller has known this server; 1 if it knew
--       another one before; the latest fence that it knows (0: none); the id of the server that it
--       knows; run id of the connection ('': not known), tag
-- ->    {run id, ms until somebody is let in (0: now), cause, record}; {run id} for a look
--       that found nothing new
local call = redis.call
local run, tag = ARGV[7], ARGV[8]
-- A server this young may have taken the place of one on which usual leases still run.
local YOUNG = 30000000
-- A clock that is behind the latest fence by more than this is not waited for.
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

-- Is this run in all records? One that was damaged from outside must not bar its bucket for ever.
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
  -- The difference of two whole seconds: the first one may have been nearly over.
  local up = string.match(said, 'uptime_in_seconds:(%d+)')
  if not id or not up then return {'', 0, '', ''} end
  -- It became another one when it was promoted, and it may have been the primary before.
  local promoted = string.match(copied, 'second_repl_offset:(%d+)')
  if promoted then id = id .. '.' .. promoted end
  local window, strict, known = ARGV[1] * 1000, ARGV[2] == '1', ARGV[3] * 1000
  up = math.max(0, (up - 1) * 1000000 + clock[2])
  -- A strict guard promises it for leases as long as its window.
  local YOUNG = strict and math.max(YOUNG, window) or YOUNG
  local former = ARGV[4] == '1'
  if ARGV[6] ~= id then
    known, former = 0, former or ARGV[6] ~= ''
  end
  -- The caller has seen this server take the place of another one, and not long ago.
  local replaced = former and known < window
  -- In a cluster the record of another one has come with its slot, and so has all that it stands
  -- for. Unless this one was a replica, which may have missed something; or was started less than
  -- a usual lease ago, or since the caller saw it: then the record may be its own from before, as
  -- loading may have taken it longer than the window.
  local comes = not promoted and not replaced and up >= YOUNG
    and string.find(call('INFO', 'cluster'), 'cluster_enabled:1')
  local latest = ARGV[5] + 0
  -- No fence may fall: so a window lasts until the clock has reached the latest one.
  local function reaching(moment)
    if latest > moment and latest - now <= BEHIND then return latest end
    return moment
  end
  -- A window counts from the first question, as before that nobody may have reached the server. It
  -- is over where the caller has known the server for as long.
  local opened = reaching(now + math.max(0, window - known))
  -- The longest time for which a record can bar: more was written before the clock was set back.
  local longest = now + window + BEHIND

  -- Has it counted a command that takes all keys away? It counts for all databases together, so that
  -- may have been another's: only a strict guard, which waits then, may ask.
  local function flushed()
    local seen = call('INFO', 'commandstats')
    for _, name in ipairs({'flushdb', 'flushall', 'swapdb'}) do
      if string.find(seen, 'cmdstat_' .. name .. ':calls=[1-9]') then return true end
    end
    return false
  end

  -- Why the data of a bucket without a record may be lost, if so: of a server that is used for the
  -- first time nothing is.
  local function missing()
    if promoted then return 'promoted' end
    if strict and (flushed() or string.find(call('INFO', 'stats'), 'evicted_keys:[1-9]')) then
      -- That may be later than its start.
      return 'lost', now + window
    end
    if replaced or up < YOUNG then return 'restarted' end
  end

  local worst, why, found = 0, '', id
  for _, key in ipairs(KEYS) do
    local record = get(key)
    local until_, cause
    local server = record and string.match(record, '^%S*')
    -- Without replicas it forgets after an hour that it was promoted.
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
    -- Another one may have opened it, who knew no fence as late as this one.
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
