-- Makes the lease end anew.
--
-- KEYS[1]  the record
-- ARGV[1]  owner, token, lease, lease + retention
local owner, token, lease, keep = struct.unpack('>c16I8I8I8', ARGV[1])
local r, answer = mine(owner, token, false)
if not r then return answer end
if r.phase ~= CLAIMED then return SETTLED end
local now = clock()
r.at, r.expires = math.min(LAST, now + lease), math.min(LAST, now + keep)
return store(format(r), r.expires, now) or 1
