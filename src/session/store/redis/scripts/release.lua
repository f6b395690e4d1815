-- Returns the files of a session that never came to be, when the lease would have lapsed, and whether a turn is
-- left that is not over.
local grant, ttl = unpack(ARGV)
if redis.call('HGET', SESSION, 'grant') ~= grant then
  return false
end
if redis.call('HEXISTS', SESSION, 'version') == 0 then
  local deadline = redis.call('HGET', SESSION, 'deadline')
  return {remove(), deadline, 0}
end
local deadline, is_left = give_back(ttl)
redis.call('SPUBLISH', LOG, '')
return {{}, deadline, is_left}
