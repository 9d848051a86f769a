-- Takes a record that its caller has read and judged to be free. It restates
-- what the judgement relied on (I11, C31): the record is, byte for byte, the one
-- that was judged, and the server's time is within the bounds of the judgement.
--
-- KEYS[1]  the record
-- ARGV[1]  the record as it was judged
-- ARGV[2]  flags, owner, lease, lease + retention, earliest and latest time of
--          the judgement (0: none), length of the fingerprint, fingerprint, the
--          providers whose windows go on
-- ARGV[3]  and on: providers whose windows begin now
--
-- Answers as claim.lua does, with the record as it is now: taken, or not.
local raw = redis.pcall('GET', KEYS[1])
if type(raw) == 'table' then return raw end
local now = clock()
local stamp = struct.pack('>I8', now)
if not raw then return stamp end
local flags, owner, lease, keep, earliest, latest, fp = struct.unpack('>Bc16I8I8I8I8I2', ARGV[2])
if raw ~= ARGV[1] or now < earliest or (latest > 0 and now > latest) then
  return {stamp, raw}
end
local r = parse(raw)
if not r then return {stamp, raw} end
r.phase, r.flags, r.owner = CLAIMED, flags, owner
r.token = math.max(now, r.token + 1)
r.attempt = r.attempt + 1
r.claimed, r.at, r.expires = now, math.min(LAST, now + lease), math.min(LAST, now + keep)
r.fingerprint, r.providers = ARGV[2]:sub(52, 51 + fp), ARGV[2]:sub(52 + fp)
for i = 3, #ARGV do r.providers = r.providers .. stamp .. ARGV[i] end
raw = format(r)
return store(raw, r.expires, now) or stamp .. raw
