local files = use(ARGV[1])
return {redis.call('HGET', SESSION, 'version'), redis.call('GET', RECORD), files}
