import socket

import aiohttp


def keepalive_socket(address):
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, @interval@)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, @count@)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, @idle@)
    return made


def new_session():  # called in a coroutine
    connector = aiohttp.TCPConnector(socket_factory=keepalive_socket)
    timeout = aiohttp.ClientTimeout(total=3600)
    return aiohttp.ClientSession(connector=connector, timeout=timeout)
