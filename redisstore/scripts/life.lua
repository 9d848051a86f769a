-- What a copy that is put now is stamped with: the beginning of the server's
-- replication id. A server gets a new one when it starts and when it becomes the
-- primary, whatever data it then has (ADR 0064).
local info = redis.pcall('INFO', 'replication')
if type(info) == 'table' then return info end
if not string.find(info, 'role:master', 1, true) then
  return redis.error_reply('READONLY a replica may be behind')
end
local high, low = string.match(info, '\nmaster_replid:(%x%x%x%x%x%x%x%x)(%x%x%x%x%x%x%x%x)')
if not high then return redis.error_reply('ERR INFO shows no master_replid') end
local life = struct.pack('>I4I4', tonumber(high, 16), tonumber(low, 16))
