# Asks, is quiet for 5 s, and asks again on the same connection: says what became of the second request.
import os
import select
import socket

host, _, port = os.environ["STILLOPEN_SERVER"].rpartition(":")
client = socket.create_connection((host.strip("[]"), int(port)))
client.settimeout(3)
for wait in (5, 0):
    client.sendall(b"GET / HTTP/1.1\r\nhost: server\r\n\r\n")
    try:
        print(client.recv(4096).split(b"\r\n")[0].decode())
    except OSError as error:
        print(type(error).__name__)
    select.select([], [], [], wait)
