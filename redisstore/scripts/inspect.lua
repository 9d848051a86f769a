-- Tells what is there.
--
-- KEYS[1]  the record
--
-- Answers as claim.lua does.
local raw = redis.pcall('GET', KEYS[1])
local t = redis.call('TIME')
if not raw then return t end
if type(raw) == 'table' then return raw end
t[3] = raw
return t
