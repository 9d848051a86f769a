-- Tells which copy is there, if it was put in this life of the server. life.lua is
-- between the two parts.
--
-- KEYS[1]  the copy
--
-- Answers with seconds, microseconds and the copy, or 0 if there is none.
local raw = redis.pcall('GET', KEYS[1])
if type(raw) == 'table' then return raw end
if not raw or #raw < 34 or raw:byte(1) ~= 67 then return 0 end
-- life.lua
if raw:sub(26, 33) ~= life then return 0 end
local t = redis.call('TIME')
t[3] = raw
return t
