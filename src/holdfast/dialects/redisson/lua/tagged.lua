-- A reply for a shared connection: after the tag of its request, which is the last argument.
local function tagged(reply)
  local tag = ARGV[#ARGV]
  if tag == '' then return reply end
  return {tag, reply}
end
