-- The beginning of every script that changes a record: it reads the record into
-- local variables, or ends the script. What follows changes the variables, and
-- write.lua stores them. The layout is that of format 1, see format.go.
--
-- There are no functions and no tables here: making them costs more than all the
-- rest (ADR 0031). No script raises an error after its SET, so that an error says
-- that nothing was written.
local CLAIMED, RELEASED, SUCCEEDED, FAILED = 1, 2, 3, 4
local HELD, DOUBT, WATCHED = 1, 2, 4
local NOBODY = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
local LAST = 9007199254740991 -- 2^53 - 1: numbers are doubles, and have gaps beyond

-- What the caller is told when nothing was changed. settle.go knows the numbers.
local SAID_AGAIN, NO_RECORD, OTHER_OWNER, OTHER_TOKEN, SETTLED, UNREADABLE = 0, -1, -2, -3, -4, -5

local raw = redis.pcall('GET', KEYS[1])
if not raw then return NO_RECORD end
if type(raw) == 'table' then return raw end -- WRONGTYPE, NOPERM
if #raw < 75 or raw:byte(1) ~= 1 then return UNREADABLE end
local _, phase, flags, owner, token, attempt, claimed, at, expires, fp, pr, rf, au, de, va =
  struct.unpack('>BBBc16I8I4I8I8I8I2I2I4I4I4I4', raw)
local held, doubt, watched = flags % 2 == 1, flags % 4 > 1, flags > 3
if phase < CLAIMED or phase > FAILED or flags > 7 or (held and (not doubt or phase >= SUCCEEDED))
  or (watched and phase ~= CLAIMED) or (owner == NOBODY and phase ~= RELEASED)
  or token < 1 or token > LAST or attempt < 1
  or claimed < 1 or claimed > LAST or at < 1 or at > LAST or expires < 1 or expires > LAST
  or (phase < SUCCEEDED) ~= (de == 0) or (de == 0 and va > 0)
  or 75 + fp + pr + rf + au + de + va ~= #raw then
  return UNREADABLE -- never taken for absent, nor for ended (I12)
end

-- The server's time, in microseconds.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

-- The sections. Those before the outcome stay together unless one changes.
local sections = raw:sub(76, 75 + fp + pr + rf + au)
local details, value, audit = '', '', ''
local reply = 1
