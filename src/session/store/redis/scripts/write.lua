-- Writes a record, news of a log, or both. Returns 1 and the record's version if that is done, 0 if the lease
-- or the version is another one, -1 if the server has lost the lease or what came before in the log, and -2 if the
-- session was forgotten. If the turn ends, it gives the lease back, and also returns when that would have lapsed, and
-- whether a turn is left that is not over. With a journal, it also returns the turn that someone has asked to cancel:
-- what the turn does next must not follow a cancellation that was acknowledged.
--
-- A gateway that got no answer asks again. What it finds done already by its own lease is not refused.
local grant, ttl, epoch, turn, journal, ends, count_max, bytes_max, asked, node = unpack(ARGV, 1, 10)
local expected, version, record = ARGV[11], ARGV[12], nil
local next_argument = 13
if version ~= '' then
  record, next_argument = ARGV[13], 14
end

-- Whether this lease has written the record over the same version before.
local function is_saved()
  local has = redis.call('HMGET', SESSION, 'before', 'by')
  return has[1] == expected and has[2] == grant and redis.call('GET', RECORD) == record
end

if not holds(grant) then
  -- The end of a turn gives its lease back.
  if ends == '1' and is_saved() and redis.call('HEXISTS', JOURNAL, turn) == 0 then
    return {1, redis.call('HGET', SESSION, 'version')}
  end
  return {loss(grant, epoch, node), ''}
end
-- The connection has lost its order: this request is older than what is written. Its journal must not come back.
if tonumber(redis.call('HGET', SESSION, 'asked')) > tonumber(asked) then
  return {0, ''}
end

local function take()
  next_argument = next_argument + 1
  return ARGV[next_argument - 1]
end

-- The record, if there is one.
if record then
  local has = redis.call('HGET', SESSION, 'version')
  if (has or '') == expected then
    -- It is written below.
  elseif is_saved() then
    record, version = nil, has
  else
    return {0, ''}
  end
end

-- The log, if there is news of one: batches of three arguments each.
local number, last, bytes, epochs
if turn ~= '' then
  local log = redis.call('HGET', SESSION, 'log:' .. turn)
  if log then
    number, last, bytes, epochs = parse(log)
  else
    last, bytes, epochs = 0, 0, ''
  end
  local is_new = not number
  -- Those that are there already came with the same request.
  while next_argument <= #ARGV and tonumber(ARGV[next_argument + 1]) <= last do
    next_argument = next_argument + 3
  end
  if next_argument <= #ARGV and tonumber(ARGV[next_argument]) ~= last + 1 then
    return {-1, ''}
  end
  if is_new then
    number = redis.call('HINCRBY', SESSION, 'logs', 1)
  end
  if string.match(epochs, ':(%d+)$') ~= epoch then
    -- An epoch without events leaves no trace.
    if tonumber(string.match(epochs, ' (%d+):%d+$')) == last + 1 then
      epochs = string.gsub(epochs, ' %d+:%d+$', '')
    end
    epochs = string.format('%s %.0f:%s', epochs, last + 1, epoch)
  end
  while next_argument <= #ARGV do
    local first, batch_last, batch = take(), take(), take()
    redis.call('XADD', LOG, string.format('%.0f-%s', number, batch_last), 'f', first, 'b', batch)
    last, bytes = tonumber(batch_last), bytes + #batch
  end
  redis.call('HSET', SESSION, 'log:' .. turn, format(number, last, bytes, epochs), 'asked', asked)
  if journal ~= '' then
    redis.call('HSET', JOURNAL, turn, journal)
    redis.call('PEXPIRE', JOURNAL, time_left(ttl))
  end
  if is_new then
    redis.call('PEXPIRE', LOG, time_left(ttl))
  end
  if is_new or ends == '1' then
    trim(tonumber(count_max), tonumber(bytes_max))
  end
end

if record then
  redis.call('SET', RECORD, record, 'PX', time_left(ttl))
  redis.call('HSET', SESSION, 'version', version, 'before', expected, 'by', grant, 'used', now,
    'asked', asked)
end
local answer = {1, version}
if ends == '1' then
  redis.call('HDEL', JOURNAL, turn)
  answer[3], answer[4] = give_back(ttl)
elseif journal ~= '' then
  answer[3] = redis.call('HGET', SESSION, 'cancel')
end
if turn ~= '' then
  redis.call('SPUBLISH', LOG, '')
end
return answer
