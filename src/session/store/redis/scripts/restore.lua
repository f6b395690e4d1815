-- Writes a session, all of it or nothing. Returns the files of the one that it replaces.
local replaces, epoch, used, version, record, ttl = unpack(ARGV, 1, 6)
local next_argument = 7
local function take()
  next_argument = next_argument + 1
  return ARGV[next_argument - 1]
end

local has = redis.call('HMGET', SESSION, 'grant', 'deadline', 'epoch', 'version')
if is_leased(has[1], has[2]) or (has[3] and replaces ~= '1') then
  return false
end
local old = redis.call('ZRANGE', FILES, 0, -1)
redis.call('SET', RECORD, record)
redis.call('DEL', SESSION, LOG, JOURNAL, FILES)
-- No node had it last, so the next one begins another epoch.
epoch = math.max(tonumber(has[3]) or 0, tonumber(epoch))
redis.call('HSET', SESSION, 'epoch', epoch, 'node', '', 'asked', 0, 'used', used, 'version', version)
local count = tonumber(take())
for number = 1, count do
  local turn, log, journal, batches = take(), take(), take(), tonumber(take())
  redis.call('HSET', SESSION, 'log:' .. turn, number .. ' ' .. log)
  if journal ~= '' then
    redis.call('HSET', JOURNAL, turn, journal)
  end
  for _ = 1, batches do
    local first, last, bytes = take(), take(), take()
    redis.call('XADD', LOG, number .. '-' .. last, 'f', first, 'b', bytes)
  end
end
redis.call('HSET', SESSION, 'logs', count)
local files, sum = 0, 0
while next_argument <= #ARGV do
  local file = take()
  files, sum = files + 1, sum + tonumber(string.match(file, '%d+$'))
  redis.call('ZADD', FILES, files, file)
end
redis.call('HSET', SESSION, 'files', files, 'file_bytes', sum)
last_for(math.min(ttl, used + ttl - now))
return old
