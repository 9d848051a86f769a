-- Removes a copy and leaves a marker, which refuses every Put until it ends.
--
-- KEYS[1]  the copy
-- ARGV[1]  the marker
-- ARGV[2]  how long it stands, in milliseconds; 0 leaves none
--
-- Answers 1, or -5 if a record of a Backend is there.
local raw = redis.pcall('GET', KEYS[1])
if type(raw) == 'table' then
  if not string.find(raw.err, 'WRONGTYPE', 1, true) then return raw end
  raw = ''
end
if raw then
  if raw:byte(1) == 1 and #raw >= 75 then return -5 end
  if raw:byte(1) == 68 and redis.call('PTTL', KEYS[1]) >= tonumber(ARGV[2]) then return 1 end
end
local done
if ARGV[2] == '0' then
  done = redis.pcall('DEL', KEYS[1])
else
  done = redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
if type(done) == 'table' and done.err then return done end
return 1
