-- Marks a claim as waited for: whoever settles it then publishes a hint. It
-- touches neither the lifetime nor anything that a claim relies on.
--
-- KEYS[1]  the record
--
-- Answers 1 if a claim is there, 0 if there is nothing to wait for.
local head = redis.pcall('GETRANGE', KEYS[1], 0, 2)
if type(head) == 'table' then return head end
local version, phase, flags = head:byte(1, 3)
if version ~= 1 or phase ~= 1 or not flags or flags > 7 then return 0 end
if flags < 4 then
  local done = redis.pcall('SETRANGE', KEYS[1], 2, string.char(flags + 4))
  if type(done) == 'table' then return done end
end
return 1
