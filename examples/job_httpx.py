#!/usr/bin/env python3
"""The job of the incident in Python: sends documents to the agent and waits for each answer.

The same flags, log and exit status as `stillopen lab job`. Needs Python 3.11 and httpx
(requirements.txt).
With `--keepalive 60/30/3` its sockets have the options that cured the incident.
"""

import argparse
import asyncio
import datetime
import json
import pathlib
import re
import socket
import sys
import time

import httpx

PATH = "/v1/issues"
# How soon an attempt is made again whose end the client was told; silence waits for --retry-after.
TOLD_RETRY_AFTER = 5.0
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


def duration(text):
    """15m, 900s, 1h, 1h30m: seconds."""
    if not re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h))+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 900s, 15m or 1h")
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def keepalive(text):
    """60/30/3: idle and interval in seconds, count."""
    match = re.fullmatch(r"(\d+)/(\d+)/(\d+)", text)
    values = tuple(int(value) for value in match.groups()) if match else (0, 0, 0)
    # The kernel's ranges: MAX_TCP_KEEPIDLE, MAX_TCP_KEEPINTVL, MAX_TCP_KEEPCNT in include/net/tcp.h.
    if not all(1 <= value <= most for value, most in zip(values, (32767, 32767, 127))):
        raise argparse.ArgumentTypeError(f"{text!r} is not idle/interval/count such as 60/30/3")
    return values


def positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def server(text):
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 65536) or "/" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return text


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", type=server, required=True, metavar="HOST:PORT")
    parser.add_argument("--documents", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--concurrency", type=positive, default=8, metavar="C")
    parser.add_argument("--timeout", type=duration, default=3600.0)
    parser.add_argument("--retry-after", type=duration, default=3600.0)
    parser.add_argument("--max-attempts", type=positive, default=2, metavar="N")
    parser.add_argument("--keepalive", type=keepalive, metavar="IDLE/INTERVAL/COUNT")
    parser.add_argument("--log", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR")
    return parser.parse_args()


def documents(folder):
    """(id, text) of every *.txt and *.md, sorted by id; the id is the name without its ending."""
    found = {}
    for path in folder.iterdir():
        if path.suffix in (".txt", ".md") and path.is_file():
            if path.stem in found:
                raise ValueError(f"two documents with the id {path.stem!r}")
            found[path.stem] = path.read_text(encoding="utf-8")
            if not found[path.stem].strip():
                raise ValueError(f"the document {path} is empty")
    if not found:
        raise ValueError(f"no documents: {folder} has no *.txt and no *.md")
    return sorted(found.items())


class Log:
    def __init__(self, path):
        self.out = open(path, "a", encoding="utf-8") if path else sys.stderr

    def write(self, event, id, attempt, **rest):
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
        line = {"ts": now.replace("+00:00", "Z"), "service": "job", "event": event}
        line |= {"id": id, "attempt": attempt}
        line |= {name: value for name, value in rest.items() if value is not None}
        print(json.dumps(line, ensure_ascii=False), file=self.out, flush=True)


def client(timeout, keepalive):
    """Keepalive is set on the transport's sockets; each request has a connection of its own."""
    options = None
    if keepalive:
        idle, interval, count = keepalive
        # macOS calls it TCP_KEEPALIVE.
        tcp_keepidle = getattr(socket, "TCP_KEEPIDLE", None) or socket.TCP_KEEPALIVE
        options = [
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, tcp_keepidle, idle),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval),
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, count),
        ]
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    transport = httpx.AsyncHTTPTransport(limits=limits, socket_options=options)
    return httpx.AsyncClient(transport=transport, timeout=timeout)


def causes(error):
    """An exception, and all that it came from."""
    yield error
    for inner in getattr(error, "exceptions", ()):
        yield from causes(inner)
    if error.__cause__ or error.__context__:
        yield from causes(error.__cause__ or error.__context__)


def client_saw(error):
    if isinstance(error, (httpx.TimeoutException, TimeoutError)):
        return "own_timer"
    kinds = {type(cause) for cause in causes(error)}
    if ConnectionRefusedError in kinds:
        return "refused"
    if kinds & {ConnectionResetError, BrokenPipeError, ConnectionAbortedError}:
        return "reset"
    return "eof" if isinstance(error, httpx.RemoteProtocolError) else "error"


class Job:
    def __init__(self, args, http, log):
        self.args, self.http, self.log = args, http, log
        self.turns = asyncio.Semaphore(args.concurrency)

    async def ask(self, id, text):
        """One document through its attempts; says whether its answer came."""
        for attempt in range(1, self.args.max_attempts + 1):
            answer, again_at = await self.attempt(id, attempt, text)
            if answer is not None:
                self.keep(id, answer)
                return True
            if again_at is None:
                break
            if attempt < self.args.max_attempts:
                await asyncio.sleep(again_at - time.monotonic())
        self.log.write("gave_up", id, attempt)
        return False

    async def attempt(self, id, attempt, text):
        """The answer, or when to make the next attempt: None where it would come to the same."""
        args = self.args
        last = attempt == args.max_attempts
        limit = args.timeout if last else min(args.timeout, args.retry_after)
        async with self.turns:
            if attempt > 1:
                self.log.write("retry", id, attempt)
            began, sent, timer = time.monotonic(), None, None

            async def on_event(name, _info):
                nonlocal began, sent
                if name == "http11.send_request_headers.started":
                    began = sent = time.monotonic()
                    # The client's own timer counts from the send; until here it was connecting's.
                    timer.reschedule(asyncio.get_running_loop().time() + limit)
                    self.log.write("sent", id, attempt)

            def silent():
                return None if sent is None else round(time.monotonic() - sent, 3)

            try:
                request = self.http.post(
                    f"http://{args.server}{PATH}",
                    json={"id": id, "text": text},
                    # Bytes: an id may have letters that httpx does not take in a header's text.
                    headers={"X-Request-Id": id.encode(), "X-Attempt": str(attempt),
                             "Connection": "close"},
                    extensions={"trace": on_event},
                )
                async with asyncio.timeout(limit) as timer:
                    response = await request
            except (httpx.HTTPError, TimeoutError) as error:
                saw = client_saw(error)
                words = None if saw == "own_timer" else str(error) or type(error).__name__
                self.log.write("lost", id, attempt, silent_s=silent(), client_saw=saw, error=words)
                if saw == "own_timer":
                    return None, began + args.retry_after
                return None, time.monotonic() + min(args.retry_after, TOLD_RETRY_AFTER)
            answer, error = read(response)
            status = response.status_code
            self.log.write("received", id, attempt, silent_s=silent(), status=status,
                           client_saw="answer", error=error)
            if 400 <= status < 500 and status not in (408, 429):
                return None, None
            return answer, time.monotonic() + min(args.retry_after, TOLD_RETRY_AFTER)

    def keep(self, id, answer):
        line = json.dumps(answer, ensure_ascii=False)
        if self.args.out:
            (self.args.out / f"{id}.json").write_text(line + "\n", encoding="utf-8")
        else:
            print(line, flush=True)


def read(response):
    """(answer, None) or (None, what is wrong)."""
    try:
        body = response.json()
        if response.is_success:
            return (body, None) if "issues" in body else (None, "the answer has no issues")
        return None, body["error"]
    except (ValueError, KeyError, TypeError):
        return None, f"status {response.status_code}, and a body that is not the agent's"


async def run(args, found):
    async with client(args.timeout, args.keepalive) as http:
        job = Job(args, http, Log(args.log))
        answered = await asyncio.gather(*(job.ask(id, text) for id, text in found))
    return 0 if all(answered) else 1


def main():
    args = arguments()
    try:
        found = documents(args.documents)
        host, _, port = args.server.rpartition(":")
        socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        print(f"job_httpx: {error}", file=sys.stderr)
        return 2
    return asyncio.run(run(args, found))


if __name__ == "__main__":
    sys.exit(main())
