"""With pytest: an answer that takes 6 s survives a path that forgets after 3 s.

`stillopen lab exec` runs the client; what the path did is in its summary.
"""

import json
import os
import subprocess
import sys

STILLOPEN = os.environ.get("STILLOPEN", "stillopen")

# The client under test, a program of its own. Yours would be imported, or be your command.
CLIENT = """
import os, socket
host, _, port = os.environ["STILLOPEN_SERVER"].rpartition(":")
client = socket.create_connection((host.strip("[]"), int(port)))
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, {keepalive})
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
client.settimeout(8)
client.sendall(b"GET / HTTP/1.1\\r\\nhost: server\\r\\n\\r\\n")
client.recv(4096)
"""


def behind_ipvs(tmp_path, client):
    """Runs a client whose answer takes 6 s where idle connections are forgotten after 3 s."""
    summary = tmp_path / "path.json"
    command = [STILLOPEN, "lab", "exec", "--idle-timeout", "3s", "--answer-after", "6s",
               "--summary", summary, "--", sys.executable, "-c", client]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert summary.exists() and summary.stat().st_size > 0, ended.stderr
    return ended.returncode, json.loads(summary.read_text())


def test_keepalive_gets_the_answer(tmp_path):
    status, path = behind_ipvs(tmp_path, CLIENT.format(keepalive=1))
    assert status == 0
    assert path["forgotten"] == []


def test_without_it_the_answer_is_lost(tmp_path):
    status, path = behind_ipvs(tmp_path, CLIENT.format(keepalive=0))
    assert status != 0
    assert path["answers_lost"] == 1
