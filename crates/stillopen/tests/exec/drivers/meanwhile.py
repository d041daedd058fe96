# Asks once, waits so many seconds, runs a command with its own process id as the last word, and prints what that
# wrote, then what came of the request and when, from the command on.
import errno
import os
import socket
import subprocess
import sys
import time

host, _, port = os.environ["STILLOPEN_SERVER"].rpartition(":")
client = socket.create_connection((host.strip("[]"), int(port)))
client.settimeout(15)
client.sendall(b"GET / HTTP/1.1\r\nhost: server\r\n\r\n")
time.sleep(float(sys.argv[1]))
began = time.monotonic()
ran = subprocess.run([*sys.argv[2:], str(os.getpid())], stdout=subprocess.PIPE)
print(ran.returncode, ran.stdout.decode().strip(), flush=True)
try:
    print(client.recv(4096).split(b"\r\n")[0].decode())
except OSError as error:
    print(errno.errorcode.get(error.errno, "its own timer"))
print(time.monotonic() - began)
