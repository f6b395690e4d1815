-- Notes that the session's turn is read on another node than its owner's.
local fields = redis.call('HMGET', SESSION, 'grant', 'deadline', 'read')
if not is_leased(fields[1], fields[2]) then
  return 0
end
redis.call('HSET', SESSION, 'read', now)
if not is_read(fields[3], tonumber(ARGV[1])) then
  redis.call('SPUBLISH', SESSION, '')
end
return 1
