-- Takes a record that its caller has read and judged to be free. It restates
-- what the judgement relied on (I11, C31): the record is, byte for byte, the one
-- that was judged, and the server's time is within the bounds of the judgement.
--
-- KEYS[1]  the record
-- ARGV[1]  the record as it was judged
-- ARGV[2]  1 if it is now in doubt, owner, lease, lease + retention, earliest and
--          latest time of the judgement (0: none), length of the fingerprint,
--          fingerprint, the providers whose windows go on
-- ARGV[3]  and on: providers whose windows begin now
--
-- Answers as claim.lua does, with the record as it is now: taken, or not.
reply = 2
local stamp = struct.pack('>I8', now)
local doubtful, taker, lease, keep, earliest, latest, length = struct.unpack('>Bc16I8I8I8I8I2', ARGV[2])
if raw ~= ARGV[1] or now < earliest or (latest > 0 and now > latest) then
  return {t[1], t[2], raw}
end
phase, doubt, owner = CLAIMED, doubtful == 1, taker
token, attempt = math.max(now, token + 1), attempt + 1
claimed, at, expires = now, now + lease, now + keep
local providers = ARGV[2]:sub(52 + length)
for i = 3, #ARGV do providers = providers .. stamp .. ARGV[i] end
sections = ARGV[2]:sub(52, 51 + length) .. providers .. sections:sub(1 + fp + pr)
fp, pr = length, #providers
