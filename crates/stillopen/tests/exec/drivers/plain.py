# Asks once on a plain socket; with an argument its keepalive is 1/1/3.
import os
import socket
import sys

host, _, port = os.environ["STILLOPEN_SERVER"].rpartition(":")
client = socket.create_connection((host.strip("[]"), int(port)))
if sys.argv[1:]:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
client.settimeout(9)
client.sendall(b"GET / HTTP/1.1\r\nhost: server\r\n\r\n")
try:
    print(client.recv(4096).split(b"\r\n")[0].decode())
except TimeoutError:
    sys.exit("its own timeout")
