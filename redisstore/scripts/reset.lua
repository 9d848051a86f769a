-- Lets a key run again that no claim runs on.
--
-- KEYS[1]  the record
-- ARGV[1]  token, retention
-- ARGV[2]  who and why
local token, retention = struct.unpack('>I8I8', ARGV[1])
local r, answer = find()
if not r then return answer end
if r.token ~= token then return OTHER_TOKEN end
local now = clock()
if r.phase == CLAIMED and now < r.at then return SETTLED end
r.phase, r.flags = RELEASED, r.flags >= WATCHED and WATCHED or 0
r.owner = NOBODY
r.token = math.max(now, r.token + 1)
r.at, r.expires = now, math.min(LAST, now + retention)
r.details, r.value = '', ''
audited(r, ARGV[2], now)
return settled(r, now)
