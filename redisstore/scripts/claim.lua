-- Claims a key that has no record, or tells what is there: a duplicate is
-- answered by the first lines. Whether a record that is there may be taken is
-- decided by the caller, and done by take.lua.
--
-- KEYS[1]  the record
-- ARGV[1]  1 if a record may be made, owner, lease, lease + retention, fingerprint
-- ARGV[2]  and on: providers, without the beginning of their windows
--
-- Answers with the server's time (8 bytes) and the record behind it; without a
-- record, the time alone. A long record is an element of its own, so that it is
-- not copied once more, and so is an empty one, which is not an absent one.
local raw = redis.pcall('GET', KEYS[1])
if type(raw) == 'table' then return raw end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local stamp = struct.pack('>I8', now)
if raw then
  if #raw > 1024 or #raw == 0 then return {stamp, raw} end
  return stamp .. raw
end

local make, owner, lease, keep = struct.unpack('>Bc16I8I8', ARGV[1])
if make == 0 then return stamp end
local fingerprint = ARGV[1]:sub(34)
local providers = ''
for i = 2, #ARGV do providers = providers .. stamp .. ARGV[i] end
local function later(d) return math.min(9007199254740991, now + d) end -- 2^53 - 1: numbers are doubles
raw = struct.pack('>BBBc16I8I4I8I8I8I2I2I4I4I4I4', 1, 1, 0, owner, now, 1, now, later(lease), later(keep),
  #fingerprint, #providers, 0, 0, 0, 0) .. fingerprint .. providers
local done = redis.pcall('SET', KEYS[1], raw, 'PX', string.format('%.0f', math.ceil((later(keep) - now) / 1000)))
if done.err then return done end
return stamp .. raw
