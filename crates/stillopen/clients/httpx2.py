import socket

import httpx2

KEEPALIVE = [
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, @interval@),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, @count@),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, @idle@),
]

# With asyncio: httpx2.AsyncClient and httpx2.AsyncHTTPTransport, with the same arguments.
client = httpx2.Client(transport=httpx2.HTTPTransport(socket_options=KEEPALIVE), timeout=3600)
