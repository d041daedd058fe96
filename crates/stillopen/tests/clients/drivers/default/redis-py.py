import redis

redis.Redis("@host@", @port@).ping()
