-- Gives a claim up without an outcome.
--
-- KEYS[1]  the record
-- ARGV[1]  owner, token (0: any), how, retention, retention of a held record
-- ARGV[2]  who and why; missing without
local IN_DOUBT, AS_HELD, NOT_EXECUTED = 1, 2, 3 -- 0: as it is
local asks, with, how, retention, longer = struct.unpack('>c16I8BI8I8', ARGV[1])
if owner ~= asks then return OTHER_OWNER end
if token ~= with and with ~= 0 then return OTHER_TOKEN end
if phase == RELEASED then
  -- Of two ends the more careful one stands (I6).
  if not (how == IN_DOUBT and not doubt or how == AS_HELD and not held) then return SAID_AGAIN end
elseif phase ~= CLAIMED then
  return SETTLED
end
if how == NOT_EXECUTED then
  held, doubt = false, false
  sections, pr = sections:sub(1, fp) .. sections:sub(1 + fp + pr), 0
end
if how == IN_DOUBT or how == AS_HELD then doubt = true end
if how == AS_HELD then held = true end
phase, audit = RELEASED, ARGV[2] or ''
at, expires = now, now + (held and longer or retention)
