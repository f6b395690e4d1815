-- Returns why the lease is lost, if it is.
local grant, lease, ttl, epoch, node = unpack(ARGV)
if not holds(grant) then
  return loss(grant, epoch, node)
end
local deadline = now + lease
redis.call('HSET', SESSION, 'deadline', deadline, 'used', now)
last_for(ttl)
local fields = redis.call('HMGET', SESSION, 'cancel', 'read')
return {deadline, fields[1], is_read(fields[2], tonumber(lease)) and 1 or 0, files_due(tonumber(ttl))}
