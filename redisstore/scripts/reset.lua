-- Lets a key run again that no claim runs on.
--
-- KEYS[1]  the record
-- ARGV[1]  token, retention
-- ARGV[2]  who and why
local with, retention = struct.unpack('>I8I8', ARGV[1])
if token ~= with then return OTHER_TOKEN end
if phase == CLAIMED and now < at then return SETTLED end
phase, owner, token = RELEASED, NOBODY, math.max(now, token + 1)
held, doubt, audit = false, false, ARGV[2] or ''
at, expires = now, now + retention
