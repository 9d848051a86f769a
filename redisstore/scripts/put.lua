-- Stores a copy, unless a newer one or a marker is there, whatever life of the
-- server that is from. life.lua is between the two parts.
--
-- KEYS[1]  the copy
-- ARGV[1]  its first byte, token, revision
-- ARGV[2]  the rest of it
-- ARGV[3]  how long it may be served, in milliseconds
--
-- Answers 1 if it is stored, 0 if not, -5 if a record of a Backend is there. What
-- cannot be read is overwritten.
local raw = redis.pcall('GET', KEYS[1])
if type(raw) == 'table' then
  if not string.find(raw.err, 'WRONGTYPE', 1, true) then return raw end
  raw = ''
end
if raw then
  local mark = raw:byte(1)
  if mark == 1 and #raw >= 75 then return -5 end
  if mark == 68 then return 0 end
  if mark == 67 and #raw > 33 then
    -- Numbers of 32 bits, because those of 64 have gaps, and texts are compared by
    -- the server's locale.
    local a1, a2, a3, a4 = struct.unpack('>I4I4I4I4', raw, 2)
    local b1, b2, b3, b4 = struct.unpack('>I4I4I4I4', ARGV[1], 2)
    local newer = a4 > b4
    if a3 ~= b3 then newer = a3 > b3 end
    if a2 ~= b2 then newer = a2 > b2 end
    if a1 ~= b1 then newer = a1 > b1 end
    if newer then return 0 end
  end
end
-- life.lua
local t = redis.call('TIME')
local put = struct.pack('>I8', t[1] * 1000000 + t[2])
local done = redis.pcall('SET', KEYS[1], ARGV[1] .. put .. life .. ARGV[2], 'PX', ARGV[3])
if done.err then return done end
return 1
