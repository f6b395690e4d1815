-- If a lease is named, only its holder forgets the session.
local grant = ARGV[1]
if grant and not holds(grant) then
  return false
end
local had = redis.call('HEXISTS', SESSION, 'version')
return {had, remove()}
