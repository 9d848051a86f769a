-- Adds references to a claim, or notes that no earlier attempt had its effect.
--
-- KEYS[1]  the record
-- ARGV[1]  owner, token, 1 if not executed
-- ARGV[2]  who and why; '' without
-- ARGV[3]  and on: references
local asks, with, nothing = struct.unpack('>c16I8B', ARGV[1])
if owner ~= asks then return OTHER_OWNER end
if token ~= with then return OTHER_TOKEN end
if phase ~= CLAIMED then return SETTLED end

local have, i, stop = {}, fp + pr + 1, fp + pr + rf
while i <= stop do
  if i + 5 > stop then return UNREADABLE end
  local provider, reference = struct.unpack('>I2I4', sections, i)
  local last = i + 5 + provider + reference
  if last > stop then return UNREADABLE end
  have[sections:sub(i, last)] = true
  i = last + 1
end
local providers, begun = '', struct.pack('>I8', now)
i, stop = fp + 1, fp + pr
while i <= stop do
  if i + 17 > stop then return UNREADABLE end
  local last = i + 17 + struct.unpack('>I2', sections, i + 16)
  if last > stop then return UNREADABLE end
  providers = providers .. begun .. sections:sub(i + 8, last)
  i = last + 1
end

local added = ''
for n = 3, #ARGV do
  if not have[ARGV[n]] then
    have[ARGV[n]] = true
    added = added .. ARGV[n]
  end
end
audit = ARGV[2]
if not (held or doubt) then nothing = 0 end -- a late copy moves no window (I6)
if added == '' and audit == '' and nothing == 0 then return SAID_AGAIN end
if nothing == 0 then providers = sections:sub(1 + fp, fp + pr) end
if nothing == 1 then held, doubt = false, false end
sections = sections:sub(1, fp) .. providers .. sections:sub(1 + fp + pr, fp + pr + rf) .. added .. sections:sub(1 + fp + pr + rf)
rf = rf + #added
-- Kept as long after this change as it would be after the end of its lease.
expires = math.max(expires, now + (expires - at))
