-- Acquires a claim, or renews it. Returns 0 if somebody else has it.
local key, holder, lease, ttl, count_max = unpack(ARGV)
local counts, has, ends = holder_of(redis.call('HGET', CLAIMS, key))
if counts and has ~= holder then
  return 0
end
local till = 0
-- A claim that lasts is not made to lapse again.
if lease ~= '0' and not (has == holder and ends == '0') then
  till = now + lease
end
redis.call('HSET', CLAIMS, key, holder .. ' ' .. string.format('%.0f', till))
redis.call('ZADD', CLAIMED, now, key)
local old = redis.call('ZRANGEBYSCORE', CLAIMED, '-inf', now - ttl, 'LIMIT', 0, DROPPED_MAX)
if redis.call('ZCARD', CLAIMED) > tonumber(count_max) then
  old[#old + 1] = redis.call('ZRANGE', CLAIMED, 0, 0)[1]
end
for _, other in ipairs(old) do
  redis.call('ZREM', CLAIMED, other)
  redis.call('HDEL', CLAIMS, other)
end
redis.call('PEXPIRE', CLAIMS, ttl)
redis.call('PEXPIRE', CLAIMED, ttl)
return 1
