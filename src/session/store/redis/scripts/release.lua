-- Returns the files of a session that never came to be, and whether a turn is left that is not over.
local grant, ttl = unpack(ARGV)
if redis.call('HGET', SESSION, 'grant') ~= grant then
  return false
end
if redis.call('HEXISTS', SESSION, 'version') == 0 then
  return {remove(), 0}
end
redis.call('HDEL', SESSION, 'grant', 'deadline')
if redis.call('EXISTS', JOURNAL) == 0 then
  redis.call('HDEL', SESSION, 'cancel')
end
redis.call('HSET', SESSION, 'used', now)
last_for(ttl)
redis.call('SPUBLISH', LOG, '')
return {{}, redis.call('EXISTS', JOURNAL)}
