-- Returns the files of a session that never came to be, when the lease would have lapsed, and whether a turn is
-- left that is not over.
local grant, ttl, note_ms = unpack(ARGV)
if redis.call('HGET', SESSION, 'grant') ~= grant then
  return false
end
if redis.call('HEXISTS', SESSION, 'version') == 0 then
  local has, forgotten = redis.call('HMGET', SESSION, 'deadline', 'request', 'answer'), note()
  local files = remove()
  -- A node that wanted to take the turn over may have found the session forgotten. Its readers still need the note.
  if forgotten then
    leave_note(forgotten, note_ms, has[2], has[3])
  end
  return {files, has[1], 0}
end
local deadline, is_left = give_back(ttl)
redis.call('SPUBLISH', LOG, '')
return {{}, deadline, is_left}
