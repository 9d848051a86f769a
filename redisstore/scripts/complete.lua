-- Records the outcome.
--
-- KEYS[1]  the record
-- ARGV[1]  owner, token (0: any), phase, retention
-- ARGV[2]  who and why; '' without
-- ARGV[3]  what describes the outcome
-- ARGV[4]  its value
local owner, token, phase, retention = struct.unpack('>c16I8BI8', ARGV[1])
local r, answer = mine(owner, token, true)
if not r then return answer end
if r.phase ~= CLAIMED then
  if r.phase == phase and r.details == ARGV[3] and r.value == ARGV[4] then return SAID_AGAIN end
  return SETTLED
end
local now = clock()
r.phase, r.details, r.value = phase, ARGV[3], ARGV[4]
r.flags = r.flags - r.flags % DOUBT -- without HELD
r.at, r.expires = now, math.min(LAST, now + retention)
audited(r, ARGV[2], now)
return settled(r, now)
