-- Keeps an entry, and confirms a claim. Returns 0 if a later epoch has written the entry.
-- From the eighth argument on: the entry's keys, its own one first.
local ttl, epoch, bytes_max, named_max, claimed, holder, content = unpack(ARGV, 1, 7)
local id = ARGV[8]
local before = string.match(redis.call('HGET', NAMES, id) or '', '%d+')
if before then
  if tonumber(redis.call('HGET', ENTRIES, before .. ':e')) > tonumber(epoch) then
    return 0
  end
  drop(before)
end

-- Lua itself would write large numbers with an exponent.
local number = string.format('%.0f', redis.call('HINCRBY', ENTRIES, 'last', 1))
local keys = table.concat(ARGV, '', 8)
redis.call('HSET', ENTRIES, number, content, number .. ':e', epoch, number .. ':k', keys)
redis.call('ZADD', AGES, now, number)
for at = 8, #ARGV do
  -- The newest first.
  local listed = {number}
  for other in string.gmatch(redis.call('HGET', NAMES, ARGV[at]) or '', '%d+') do
    if other ~= number and #listed < tonumber(named_max) then
      listed[#listed + 1] = other
    end
  end
  redis.call('HSET', NAMES, ARGV[at], table.concat(listed, ' '))
end

local bytes = redis.call('HINCRBY', ENTRIES, 'bytes', size(#content, keys))
-- Numbers of one millisecond are not in order there, which does not matter.
while bytes > tonumber(bytes_max) do
  local oldest = redis.call('ZRANGE', AGES, 0, 0)[1]
  if not oldest then
    break
  end
  drop(oldest)
  bytes = tonumber(redis.call('HGET', ENTRIES, 'bytes'))
end
for _, old in ipairs(redis.call('ZRANGEBYSCORE', AGES, '-inf', now - ttl, 'LIMIT', 0, DROPPED_MAX)) do
  drop(old)
end

-- The claim may have lapsed. Nobody has it then, unless somebody has acquired it since.
if claimed ~= '' then
  local _, has = holder_of(redis.call('HGET', CLAIMS, claimed))
  if has == holder then
    redis.call('HSET', CLAIMS, claimed, holder .. ' 0')
  end
end
for _, key in ipairs({AGES, ENTRIES, NAMES}) do
  redis.call('PEXPIRE', key, ttl)
end
return 1
