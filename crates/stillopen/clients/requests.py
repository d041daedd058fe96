import socket

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection

OPTIONS = HTTPConnection.default_socket_options + [
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, @interval@),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, @count@),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, @idle@),
]


class KeepaliveAdapter(HTTPAdapter):
    def init_poolmanager(self, *args, **kwargs):
        super().init_poolmanager(*args, socket_options=OPTIONS, **kwargs)

    def proxy_manager_for(self, proxy, **kwargs):
        return super().proxy_manager_for(proxy, socket_options=OPTIONS, **kwargs)


session = requests.Session()
session.mount("http://", KeepaliveAdapter())
session.mount("https://", KeepaliveAdapter())
