-- Returns 0 if the lease is lost, and -1 if the server has lost it.
local grant, lease, ttl, epoch, node = unpack(ARGV)
if not holds(grant) then
  return has_gone_back(grant, epoch, node) and -1 or 0
end
local deadline = now + lease
redis.call('HSET', SESSION, 'deadline', deadline, 'used', now)
last_for(ttl)
local fields = redis.call('HMGET', SESSION, 'cancel', 'read')
return {deadline, fields[1], is_read(fields[2], tonumber(lease)) and 1 or 0}
