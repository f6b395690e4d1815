local had = redis.call('HEXISTS', SESSION, 'version')
return {had, remove()}
