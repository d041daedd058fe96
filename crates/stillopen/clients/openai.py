import socket

import httpx2
from openai import DefaultHttpxClient, OpenAI

KEEPALIVE = [
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, @interval@),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, @count@),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, @idle@),
]

client = OpenAI(
    http_client=DefaultHttpxClient(transport=httpx2.HTTPTransport(socket_options=KEEPALIVE)),
    timeout=3600,
)
