-- Claims a key that has no record, or tells what is there: a duplicate is
-- answered by the first lines. Whether a record that is there may be taken is
-- decided by the caller, and done by take.lua.
--
-- KEYS[1]  the record
-- ARGV[1]  '' if no record may be made; else its first bytes, up to the owner,
--          lease and lifetime in microseconds, lifetime in milliseconds, its
--          lengths, and the fingerprint
-- ARGV[2]  and on: providers, without the beginning of their windows
--
-- Answers with the server's time alone, a number, if it has made the record;
-- with seconds, microseconds and the record if there is one; with seconds and
-- microseconds if there is none.
local raw = redis.pcall('GET', KEYS[1])
local t = redis.call('TIME')
if raw then
  if type(raw) == 'table' then return raw end
  if #raw > 1024 or #raw == 0 then -- long: not to be copied once more; empty: not absent
    t[3] = raw
    return t
  end
  return t[1] .. ' ' .. t[2] .. ' ' .. raw
end
local claim = ARGV[1]
if claim == '' then return t end

local now = t[1] * 1000000 + t[2]
local lease, keep, lifetime = struct.unpack('>I8I8I8', claim, 20)
raw = claim:sub(1, 19) .. struct.pack('>I8I4I8I8I8', now, 1, now, now + lease, now + keep) .. claim:sub(44)
if #ARGV > 1 then
  local begun = struct.pack('>I8', now)
  for i = 2, #ARGV do raw = raw .. begun .. ARGV[i] end
end
local done = redis.pcall('SET', KEYS[1], raw, 'PX', lifetime)
if done.err then return done end
return now
