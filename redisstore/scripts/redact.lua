-- Takes the body out of an outcome that its caller has read. Token and revision
-- tell that outcome from any other.
--
-- KEYS[1]  the record
-- ARGV[1]  token and revision that were read
-- ARGV[2]  who and why
-- ARGV[3]  what describes the outcome from now on, with the next revision
local OTHER_REVISION = 2
local token, revision = struct.unpack('>I8I4', ARGV[1])
local r, answer = find()
if not r then return answer end
if r.token ~= token then return OTHER_TOKEN end
if r.phase < SUCCEEDED then return SETTLED end
if struct.unpack('>I4', r.details) ~= revision then return OTHER_REVISION end
local now = clock()
r.details, r.value, r.references = ARGV[3], '', ''
audited(r, ARGV[2], now)
return store(format(r), r.expires, now) or 1
