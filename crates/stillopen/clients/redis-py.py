import socket

import redis

client = redis.Redis(
    host="redis.example.com",
    socket_keepalive=True,
    socket_keepalive_options={
        socket.TCP_KEEPINTVL: @interval@,
        socket.TCP_KEEPCNT: @count@,
        socket.TCP_KEEPIDLE: @idle@,
    },
)
