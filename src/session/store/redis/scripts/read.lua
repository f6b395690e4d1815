local ttl, turn, seen = unpack(ARGV)
local log
if turn ~= '' then
  log = redis.call('HGET', SESSION, 'log:' .. turn)
else
  local newest = logs()[1]
  if newest then
    turn, log = newest[3], newest[4]
  end
end
if not log then
  return false
end
use(ttl)
local number = string.match(log, '^%d+')
local batches = redis.call('XRANGE', LOG, '(' .. number .. '-' .. seen, number)
return {turn, log, redis.call('HGET', JOURNAL, turn), batches}
