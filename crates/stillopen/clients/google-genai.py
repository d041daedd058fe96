import socket

import httpx2
from google import genai
from google.genai import types

KEEPALIVE = [
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, @interval@),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, @count@),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, @idle@),
]

client = genai.Client(
    http_options=types.HttpOptions(
        timeout=3_600_000,  # milliseconds
        client_args={"transport": httpx2.HTTPTransport(socket_options=KEEPALIVE)},
        async_client_args={"transport": httpx2.AsyncHTTPTransport(socket_options=KEEPALIVE)},
    )
)
