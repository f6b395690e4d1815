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
local files = use(ttl)
local number = string.match(log, '^%d+')
local batches = redis.call('XRANGE', LOG, '(' .. number .. '-' .. seen, number)
-- The whole journal is for whoever reads the whole log.
local journal = redis.call('HEXISTS', JOURNAL, turn) == 1 and ''
if seen == '0' then
  journal = redis.call('HGET', JOURNAL, turn)
end
return {turn, log, journal, batches, files}
