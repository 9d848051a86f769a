-- Adds references to a claim, or notes that no earlier attempt had its effect.
--
-- KEYS[1]  the record
-- ARGV[1]  owner, token, 1 if not executed
-- ARGV[2]  who and why; '' without
-- ARGV[3]  and on: references
local owner, token, nothing = struct.unpack('>c16I8B', ARGV[1])
local r, answer = mine(owner, token, false)
if not r then return answer end
if r.phase ~= CLAIMED then return SETTLED end

-- entries splits a section; size tells how long the entry at a position is.
-- It returns nil if the section does not end with an entry.
local function entries(section, least, size)
  local out, at = {}, 1
  while at <= #section do
    if at + least - 1 > #section then return nil end
    local stop = at + size(section, at) - 1
    if stop > #section then return nil end
    out[#out + 1] = section:sub(at, stop)
    at = stop + 1
  end
  return out
end

local references = entries(r.references, 6, function(s, at)
  local provider, reference = struct.unpack('>I2I4', s, at)
  return 6 + provider + reference
end)
local providers = entries(r.providers, 18, function(s, at)
  return 18 + struct.unpack('>I2', s, at + 16)
end)
if not references or not providers then return UNREADABLE end

local have, changed = {}, nothing == 1 or ARGV[2] ~= ''
for _, entry in ipairs(references) do have[entry] = true end
for i = 3, #ARGV do
  if not have[ARGV[i]] then
    have[ARGV[i]] = true
    r.references = r.references .. ARGV[i]
    changed = true
  end
end
if not changed then return SAID_AGAIN end

local now = clock()
if nothing == 1 then
  r.flags = r.flags >= WATCHED and WATCHED or 0
  r.providers = ''
  for _, entry in ipairs(providers) do
    r.providers = r.providers .. struct.pack('>I8', now) .. entry:sub(9)
  end
end
audited(r, ARGV[2], now)
-- Kept as long after this change as it would be after the end of its lease.
r.expires = math.min(LAST, math.max(r.expires, now + (r.expires - r.at)))
return store(format(r), r.expires, now) or 1
