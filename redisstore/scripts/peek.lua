-- Tells what is there without the value of its outcome, for lists.
--
-- KEYS[1]  the record
--
-- Answers as inspect.lua does; the record ends before the value.
local raw = redis.pcall('GETRANGE', KEYS[1], 0, 74)
if type(raw) == 'table' then return raw end
local t = redis.call('TIME')
local stamp = struct.pack('>I8', t[1] * 1000000 + t[2])
if #raw < 75 then return stamp .. raw end
local fp, pr, rf, au, de = struct.unpack('>I2I2I4I4I4', raw, 56)
local more = fp + pr + rf + au + de
if more == 0 then return stamp .. raw end
return stamp .. redis.call('GETRANGE', KEYS[1], 0, string.format('%.0f', 74 + more))
