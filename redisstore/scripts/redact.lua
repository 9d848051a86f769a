-- Takes the body out of an outcome that its caller has read. Token and revision
-- tell that outcome from any other.
--
-- KEYS[1]  the record
-- ARGV[1]  token and revision that were read
-- ARGV[2]  who and why
-- ARGV[3]  what describes the outcome from now on, with the next revision
local OTHER_REVISION = 2
local with, revision = struct.unpack('>I8I4', ARGV[1])
if token ~= with then return OTHER_TOKEN end
if phase < SUCCEEDED then return SETTLED end
if struct.unpack('>I4', raw, 76 + #sections) ~= revision then return OTHER_REVISION end
sections, rf = sections:sub(1, fp + pr) .. sections:sub(1 + fp + pr + rf), 0
details, audit = ARGV[3], ARGV[2]
