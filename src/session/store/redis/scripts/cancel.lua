-- Asks for a turn to be cancelled: whoever holds the session, or whoever goes on with the turn.
local has = redis.call('HMGET', SESSION, 'grant', 'deadline')
if not is_leased(has[1], has[2]) and redis.call('EXISTS', JOURNAL) == 0 then
  return 0
end
redis.call('HSET', SESSION, 'cancel', ARGV[1])
redis.call('SPUBLISH', SESSION, '')
return 1
