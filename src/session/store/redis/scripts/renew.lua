local grant, lease, ttl = unpack(ARGV)
if not holds(grant) then
  return false
end
local deadline = now + lease
redis.call('HSET', SESSION, 'deadline', deadline, 'used', now)
last_for(ttl)
return {deadline, redis.call('HGET', SESSION, 'cancel')}
