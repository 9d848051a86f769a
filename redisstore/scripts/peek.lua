-- Tells what is there without the value of its outcome, for lists.
--
-- KEYS[1]  the record
--
-- Answers as claim.lua does; the record ends before the value, and may be empty
-- because there is none.
local raw = redis.pcall('GETRANGE', KEYS[1], 0, 74)
if type(raw) == 'table' then return raw end
local t = redis.call('TIME')
if #raw == 75 then
  local fp, pr, rf, au, de = struct.unpack('>I2I2I4I4I4', raw, 56)
  local more = fp + pr + rf + au + de
  if more > 0 then raw = redis.call('GETRANGE', KEYS[1], 0, 74 + more) end
end
t[3] = raw
return t
