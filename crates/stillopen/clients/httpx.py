import socket

import httpx

KEEPALIVE = [
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, @interval@),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, @count@),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, @idle@),
]

# With asyncio: httpx.AsyncClient and httpx.AsyncHTTPTransport, with the same arguments.
client = httpx.Client(transport=httpx.HTTPTransport(socket_options=KEEPALIVE), timeout=3600)
