-- The beginning of every script that changes a record: format 1 (see format.go)
-- in Lua. It is put before the script's own text.
--
-- No script raises an error after its SET: an error therefore says that nothing
-- was written.

local LAST = 9007199254740991 -- numbers are doubles; beyond this they have gaps
local HEAD = '>BBBc16I8I4I8I8I8I2I2I4I4I4I4'
local HELD, DOUBT, WATCHED = 1, 2, 4
local CLAIMED, RELEASED, SUCCEEDED = 1, 2, 3
local NOBODY = string.rep('\0', 16)

-- What the caller is told when nothing changed. settle.go knows these numbers.
local SAID_AGAIN, NO_RECORD, OTHER_OWNER, OTHER_TOKEN, SETTLED, UNREADABLE = 0, -1, -2, -3, -4, -5

-- clock returns the server's time in microseconds.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- parse returns the record in raw, nil if that cannot be read (I12).
local function parse(raw)
  if #raw < 75 or raw:byte(1) ~= 1 then return nil end
  local r, _, fp, pr, rf, au, de, va = {}
  _, r.phase, r.flags, r.owner, r.token, r.attempt, r.claimed, r.at, r.expires, fp, pr, rf, au, de, va =
    struct.unpack(HEAD, raw)
  local held, doubt, watched = r.flags % 2 == 1, r.flags % 4 > 1, r.flags > 3
  if r.phase < CLAIMED or r.phase > 4 or r.flags > 7 or (held and (not doubt or r.phase >= SUCCEEDED))
    or (watched and r.phase ~= CLAIMED) or (r.owner == NOBODY and r.phase ~= RELEASED)
    or r.token < 1 or r.token > LAST or r.attempt < 1
    or r.claimed < 1 or r.claimed > LAST or r.at < 1 or r.at > LAST or r.expires < 1 or r.expires > LAST
    or (r.phase < SUCCEEDED) ~= (de == 0) or (de == 0 and va > 0)
    or 75 + fp + pr + rf + au + de + va ~= #raw then
    return nil
  end
  local at = 76
  local function take(n)
    at = at + n
    return raw:sub(at - n, at - 1)
  end
  r.fingerprint, r.providers, r.references, r.audit, r.details, r.value = take(fp), take(pr), take(rf), take(au), take(de), take(va)
  return r
end

-- format is the inverse of parse.
local function format(r)
  return struct.pack(HEAD, 1, r.phase, r.flags, r.owner, r.token, r.attempt, r.claimed, r.at, r.expires,
    #r.fingerprint, #r.providers, #r.references, #r.audit, #r.details, #r.value)
    .. r.fingerprint .. r.providers .. r.references .. r.audit .. r.details .. r.value
end

-- find returns the record of the key; else nil and what to answer.
local function find()
  local raw = redis.pcall('GET', KEYS[1])
  if not raw then return nil, NO_RECORD end
  if type(raw) == 'table' then return nil, raw end -- WRONGTYPE, NOPERM
  local r = parse(raw)
  if not r then return nil, UNREADABLE end
  return r
end

-- mine returns the record if owner's claim was its last one (I3); else nil and
-- what to answer. The token 0 stands for any, where the caller says so.
local function mine(owner, token, any)
  local r, answer = find()
  if not r then return nil, answer end
  if r.owner ~= owner then return nil, OTHER_OWNER end
  if r.token ~= token and not (any and token == 0) then return nil, OTHER_TOKEN end
  return r
end

-- store writes the record. Its lifetime goes with it, in the same step (C53).
-- It returns nil, or the error to answer with.
local function store(raw, expires, now)
  local ttl = math.max(1, math.ceil((expires - now) / 1000))
  local done = redis.pcall('SET', KEYS[1], raw, 'PX', string.format('%.0f', ttl))
  if done.err then return done end
end

-- audited notes who changed the record and why, if it is told.
local function audited(r, audit, now)
  if audit ~= '' then r.audit = struct.pack('>I8', now) .. audit end
end

-- settled stores a record that no claim runs on any more, and wakes those who
-- wait. It returns what to answer. A hint that cannot be sent is lost.
local function settled(r, now)
  local watched = r.flags >= WATCHED
  if watched then r.flags = r.flags - WATCHED end
  local failed = store(format(r), r.expires, now)
  if failed then return failed end
  if watched then redis.pcall('PUBLISH', KEYS[1], '') end
  return 1
end
