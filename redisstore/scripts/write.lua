-- The end of every script that changes a record: it stores the variables of
-- read.lua. The lifetime goes with the record, in the same step (C53).
if audit ~= '' then
  audit = struct.pack('>I8', now) .. audit
  sections = sections:sub(1, fp + pr + rf) .. audit
  au = #audit
end
flags = (held and HELD or 0) + (doubt and DOUBT or 0) + (watched and phase == CLAIMED and WATCHED or 0)
raw = struct.pack('>BBBc16I8I4I8I8I8I2I2I4I4I4I4', 1, phase, flags, owner, token, attempt, claimed, at, expires,
  fp, pr, rf, au, #details, #value) .. sections .. details .. value
local done = redis.pcall('SET', KEYS[1], raw, 'PX', math.max(1, math.ceil((expires - now) / 1000)))
if done.err then return done end
if watched and phase ~= CLAIMED then
  redis.pcall('PUBLISH', KEYS[1], '') -- a hint that cannot be sent is lost
end
if reply == 1 then return 1 end
t[3] = raw
return t
