-- Records the outcome.
--
-- KEYS[1]  the record
-- ARGV[1]  owner, token (0: any), phase, retention, what describes the outcome
-- ARGV[2]  its value
-- ARGV[3]  who and why; missing without
local asks, with, outcome, retention = struct.unpack('>c16I8BI8', ARGV[1])
details, value, audit = ARGV[1]:sub(34), ARGV[2], ARGV[3] or ''
if owner ~= asks then return OTHER_OWNER end
if token ~= with and with ~= 0 then return OTHER_TOKEN end
if phase ~= CLAIMED then
  if phase == outcome and de == #details and raw:sub(76 + #sections) == details .. value then return SAID_AGAIN end
  return SETTLED
end
phase, held = outcome, false
at, expires = now, now + retention
