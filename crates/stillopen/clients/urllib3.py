import socket

import urllib3
from urllib3.connection import HTTPConnection

OPTIONS = HTTPConnection.default_socket_options + [
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, @interval@),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, @count@),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, @idle@),
]

pool = urllib3.PoolManager(socket_options=OPTIONS, timeout=3600)
