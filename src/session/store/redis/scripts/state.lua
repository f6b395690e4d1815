-- Until when the session is leased, and whether a turn is left that is not over.
local has = redis.call('HMGET', SESSION, 'grant', 'deadline')
local is_left = redis.call('HLEN', JOURNAL) > 0
return {is_leased(has[1], has[2]) and has[2] or '0', is_left and 1 or 0}
