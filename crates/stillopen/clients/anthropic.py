import socket

import httpx2
from anthropic import Anthropic, DefaultHttpxClient

KEEPALIVE = [
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, @interval@),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, @count@),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, @idle@),
]

client = Anthropic(
    http_client=DefaultHttpxClient(transport=httpx2.HTTPTransport(socket_options=KEEPALIVE)),
    timeout=3600,
)
