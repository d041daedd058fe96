"""In the guest: starts the clients of a plan, one kind of setting after the other, and says what came of each.

Clients of one kind wait side by side. The starts are apart, so that none waits for another's: on the guest's
clock, which jumps while everybody waits, that costs nothing.
"""
import json
import os
import subprocess
import sys
import threading
import time

APART_S = 20
SAID = threading.Lock()


def filled(word, server):
    host, _, port = server.rpartition(":")
    for name, value in (("url", f"http://{server}/"), ("host", host), ("port", port)):
        word = word.replace(f"@{name}@", value)
    return word


def run(job, server, patience):
    words = [filled(word, server) for word in job["words"]]
    began = time.monotonic()
    client = subprocess.Popen(words, cwd=job["folder"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, said = client.communicate(timeout=patience)
        status = client.returncode
    except subprocess.TimeoutExpired:
        client.kill()
        _, said = client.communicate()
        status = None
    after = time.monotonic() - began
    lines = [line for line in said.decode(errors="replace").splitlines() if line.strip()]
    result = {"client": job["client"], "mode": job["mode"], "after_s": round(after, 1),
              "status": status, "saw": lines[-1].strip() if lines else ""}
    with SAID:
        print(json.dumps(result), flush=True)
        if status not in (0, None):
            print(*lines[-4:], sep="\n", file=sys.stderr, flush=True)


def main():
    plan, patience = sys.argv[1:]
    with open(plan, encoding="utf-8") as file:
        jobs = json.load(file)
    for mode in ("default", "patient", "setting"):
        waiting = []
        for job in jobs:
            if job["mode"] == mode:
                args = (job, os.environ["STILLOPEN_SERVER"], float(patience))
                waiting.append(threading.Thread(target=run, args=args))
                waiting[-1].start()
                time.sleep(APART_S)
        for thread in waiting:
            thread.join()


main()
