-- Gives a claim up without an outcome.
--
-- KEYS[1]  the record
-- ARGV[1]  owner, token (0: any), how, retention, retention of a held record
-- ARGV[2]  who and why; '' without
local AS_IT_IS, IN_DOUBT, AS_HELD, NOT_EXECUTED = 0, 1, 2, 3
local owner, token, how, retention, held = struct.unpack('>c16I8BI8I8', ARGV[1])
local r, answer = mine(owner, token, true)
if not r then return answer end
if r.phase == RELEASED then return SAID_AGAIN end
if r.phase ~= CLAIMED then return SETTLED end
local watched = r.flags >= WATCHED and WATCHED or 0
local flags = r.flags - watched
if how == IN_DOUBT and flags < DOUBT then flags = flags + DOUBT end
if how == AS_HELD then flags = HELD + DOUBT end
if how == NOT_EXECUTED then
  flags = 0
  r.providers = ''
end
local now = clock()
r.phase, r.flags, r.at = RELEASED, flags + watched, now
r.expires = math.min(LAST, now + (flags % DOUBT == HELD and held or retention))
audited(r, ARGV[2], now)
return settled(r, now)
