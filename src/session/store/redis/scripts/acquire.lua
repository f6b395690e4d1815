-- Takes the lease. Also returns which other node had it before, and how long ago that lapsed; and for a turn that is
-- to begin, whether the latest one has a journal, and the record. Returns the time if nobody waits for it any more.
local node, asked, grant, lease, ttl, begins, wanted_until = unpack(ARGV)
if wanted_until ~= '0' and now > tonumber(wanted_until) then
  return now
end
local has = redis.call('HMGET', SESSION, 'epoch', 'node', 'grant', 'deadline', 'asked', 'request')
local epoch = tonumber(has[1])
if has[2] == node then
  -- The connection has lost its order: this request is older than the lease.
  if tonumber(has[5]) > tonumber(asked) then
    return false
  end
elseif is_leased(has[3], has[4]) then
  return false
else
  epoch = (epoch or 0) + 1
end
local deadline = now + lease
redis.call('HSET', SESSION, 'epoch', epoch, 'node', node, 'grant', grant, 'deadline', deadline,
  'asked', asked, 'used', now, 'files_extended', now)
if has[6] and not note() then
  redis.call('HDEL', SESSION, 'forgotten', 'forgotten_until', 'request', 'answer')
end
-- A turn that its owner has left behind is still to be cancelled.
if redis.call('EXISTS', JOURNAL) == 0 then
  redis.call('HDEL', SESSION, 'cancel')
end
last_for(ttl)
if has[2] ~= node then
  redis.call('SPUBLISH', LOG, '')
end
local answer = {epoch, deadline, redis.call('ZRANGE', FILES, 0, -1), has[2] ~= node and has[2],
  has[4] and now - has[4]}
if begins == '1' then
  local newest = logs()[1]
  answer[6] = newest and redis.call('HEXISTS', JOURNAL, newest[3]) or 0
  answer[7], answer[8] = redis.call('HGET', SESSION, 'version'), redis.call('GET', RECORD)
end
return answer
