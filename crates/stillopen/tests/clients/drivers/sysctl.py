import socket
import sys

listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
print(client.getpeername()[1], flush=True)
sys.stdin.read()
