-- Tells what is there.
--
-- KEYS[1]  the record
--
-- Answers as claim.lua does.
local raw = redis.pcall('GET', KEYS[1])
if type(raw) == 'table' then return raw end
local t = redis.call('TIME')
local stamp = struct.pack('>I8', t[1] * 1000000 + t[2])
if not raw then return stamp end
if #raw > 1024 or #raw == 0 then return {stamp, raw} end
return stamp .. raw
