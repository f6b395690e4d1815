-- What every script of a session begins with. Its keys, in this order; a script may be given fewer:
local SESSION, LOG, JOURNAL, RECORD, FILES = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- What a turn's log is: its number, its last event, its bytes, and the epochs in which it was written.
local function parse(log)
  local number, last, bytes, epochs = string.match(log, '^(%d+) (%d+) (%d+)(.*)$')
  return tonumber(number), tonumber(last), tonumber(bytes), epochs
end

local function format(number, last, bytes, epochs)
  return string.format('%.0f %.0f %.0f', number, last, bytes) .. epochs
end

-- The session's logs, the newest first: {number, bytes, turn, text}.
local function logs()
  local fields, found = redis.call('HGETALL', SESSION), {}
  for at = 1, #fields, 2 do
    if string.sub(fields[at], 1, 4) == 'log:' then
      local number, _, bytes = parse(fields[at + 1])
      found[#found + 1] = {number, bytes, string.sub(fields[at], 5), fields[at + 1]}
    end
  end
  table.sort(found, function(one, other) return one[1] > other[1] end)
  return found
end

-- Drops the oldest logs beyond what one session may keep. The newest stays.
local function trim(count, bytes_max)
  local bytes, oldest = 0, nil
  for at, log in ipairs(logs()) do
    bytes = bytes + log[2]
    if at > 1 and (at > count or bytes > bytes_max) then
      redis.call('HDEL', SESSION, 'log:' .. log[3])
      redis.call('HDEL', JOURNAL, log[3])
    else
      oldest = log[1]
    end
  end
  if oldest then
    redis.call('XTRIM', LOG, 'MINID', string.format('%.0f-0', oldest))
  end
end

local function is_leased(grant, deadline)
  return grant and tonumber(deadline) > now
end

-- How long the session lasts from now on: for `ttl`, counted from the end of its lease if it has one.
local function time_left(ttl)
  local has = redis.call('HMGET', SESSION, 'grant', 'deadline')
  return is_leased(has[1], has[2]) and has[2] - now + ttl or ttl
end

-- Makes every key of the session last until the session has been unused for `ttl`.
local function last_for(ttl)
  local left = time_left(ttl)
  for _, key in ipairs(KEYS) do
    redis.call('PEXPIRE', key, left)
  end
end

-- The session's files, if it is time to extend their expiry: all of them, once per half `ttl`. The gateway does it,
-- because their keys are in other slots.
local function files_due(ttl)
  if redis.call('EXISTS', FILES) == 0 then
    return {}
  end
  local extended = redis.call('HGET', SESSION, 'files_extended')
  if extended and now - extended < ttl / 2 then
    return {}
  end
  -- Refused if the memory is full: then it is done each time.
  redis.pcall('HSET', SESSION, 'files_extended', now)
  return redis.call('ZRANGE', FILES, 0, -1)
end

-- Notes that the session is used. Not each time: readers of a running turn come often. Returns the files that are due.
local function use(ttl)
  local used = tonumber(redis.call('HGET', SESSION, 'used'))
  if not used or now - used < 1000 then
    return {}
  end
  -- What can be read must not fail because the memory is full.
  redis.pcall('HSET', SESSION, 'used', now)
  last_for(ttl)
  return files_due(tonumber(ttl))
end

-- Removes all of a session, and returns its files.
local function remove()
  local files = redis.call('ZRANGE', FILES, 0, -1)
  redis.call('DEL', unpack(KEYS))
  redis.call('SPUBLISH', LOG, '')
  redis.call('SPUBLISH', SESSION, '')
  return files
end

-- Leaves a note for a while: a session with this id was forgotten, which had this lease; and by which request, with the
-- answer to it.
local function leave_note(grant, note_ms, request, answer)
  redis.call('HSET', SESSION, 'forgotten', grant, 'forgotten_until', now + note_ms)
  if request then
    redis.call('HSET', SESSION, 'request', request, 'answer', answer)
  end
  redis.call('PEXPIRE', SESSION, note_ms)
end

-- The lease in that note, as long as it counts: another session with this id may have begun since, and lasts longer.
local function note()
  local has = redis.call('HMGET', SESSION, 'forgotten', 'forgotten_until')
  return has[2] and tonumber(has[2]) > now and has[1]
end

-- Whether the turn was read on another node at that time, and so may still be.
local function is_read(read, lease)
  return read and now - tonumber(read) < lease
end

-- Whether this is the lease that the session has.
local function holds(grant)
  local has = redis.call('HMGET', SESSION, 'grant', 'deadline')
  return has[1] == grant and is_leased(has[1], has[2])
end

-- Why a lease is lost: -2 if its session was forgotten while it counted, or is gone. 0 if it was given back, if another
-- lease of a forgotten session had followed it, or if the epoch is a later one, or the same with a lease of the same
-- node. Sessions that were imported have no node.
-- Otherwise -1: the server has gone back to a state of before this lease, as in a failover, and has lost what it had
-- confirmed.
local function loss(grant, epoch, node)
  local has, forgotten = redis.call('HMGET', SESSION, 'given_back', 'epoch', 'node', 'grant'), note()
  local current, lost = tonumber(has[2]), tonumber(epoch)
  if forgotten == grant or forgotten and not current then
    return -2
  elseif has[1] == grant or forgotten then
    return 0
  elseif not current or current ~= lost then
    return (not current or current < lost) and -1 or 0
  end
  return (has[3] == node and not has[4] or has[3] ~= node and has[3] ~= '') and -1 or 0
end

-- Gives the lease back. Returns when it would have lapsed, and whether a turn is left that is not over.
local function give_back(ttl)
  local has, is_left = redis.call('HMGET', SESSION, 'deadline', 'grant'), redis.call('EXISTS', JOURNAL)
  redis.call('HDEL', SESSION, 'grant', 'deadline')
  if is_left == 0 then
    redis.call('HDEL', SESSION, 'cancel')
  end
  redis.call('HSET', SESSION, 'used', now, 'given_back', has[2])
  last_for(ttl)
  return has[1], is_left
end
