local grant, lease, ttl = unpack(ARGV)
if not holds(grant) then
  return false
end
local deadline = now + lease
redis.call('HSET', SESSION, 'deadline', deadline, 'used', now)
last_for(ttl)
local fields = redis.call('HMGET', SESSION, 'cancel', 'read')
return {deadline, fields[1], is_read(fields[2], tonumber(lease)) and 1 or 0}
