-- Returns the files of a session that never came to be, when the lease would have lapsed, and whether a turn is
-- left that is not over.
local grant, ttl, note_ms = unpack(ARGV)
if redis.call('HGET', SESSION, 'grant') ~= grant then
  return false
end
if redis.call('HEXISTS', SESSION, 'version') == 0 then
  local has = redis.call('HMGET', SESSION, 'deadline', 'forgotten')
  local files = remove()
  -- Whoever came to take a turn over may have found its session forgotten. Its readers need the note.
  if has[2] then
    leave_note(has[2], note_ms)
  end
  return {files, has[1], 0}
end
local deadline, is_left = give_back(ttl)
redis.call('SPUBLISH', LOG, '')
return {{}, deadline, is_left}
