-- Makes the lease end anew.
--
-- KEYS[1]  the record
-- ARGV[1]  owner, token, lease, lease + retention
local asks, with, lease, keep = struct.unpack('>c16I8I8I8', ARGV[1])
if owner ~= asks then return OTHER_OWNER end
if token ~= with then return OTHER_TOKEN end
if phase ~= CLAIMED then return SETTLED end
at, expires = now + lease, now + keep
