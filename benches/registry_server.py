"""A registry on loopback, in a process of its own: `python3 -m benches.registry_server`.

It answers as the real one does, checks what that one checks, and does no more than it has to while
a run is measured: bodies are kept as they came, and read when the run's account is asked for. It
prints its port and serves until its standard input ends.

Paths under `/control/` are the benchmarks' own: runs are added and their accounts read there.
"""

import asyncio
import collections
import dataclasses
import json
import os
import re
import resource
import socket
import sys
import zlib

from benches.processes import peak_memory

RUNS = "/api/registry/v1/ci/module-runs/"

# A real registry refuses bodies that are larger than this after decompression.
BODY_LIMIT = 52_428_800

# A batch with more entries, or with a NUL in a line, cannot be stored.
BATCH_LIMIT = 13_107

# A real registry closes connections that are idle for this long.
IDLE_SECONDS = 5

OVER = ("cancelled", "timed_out", "discarded", "skipped")

# Lines with numbers, which show which lines arrived.
NUMBERED = re.compile(r"bench line (\d+)")

REASONS = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 409: "Conflict",
    411: "Length Required", 413: "Content Too Large", 415: "Unsupported Media Type",
    500: "Internal Server Error",
}


@dataclasses.dataclass
class Run:
    """A run, and what its callbacks have received."""

    config: bytes
    token: str
    delay: float
    status: str = "queued"
    requests: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    sent_bytes: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    batches: list = dataclasses.field(default_factory=list)
    statuses: list = dataclasses.field(default_factory=list)

    def account(self):
        """The data that arrived, with an evaluation of all log lines."""
        lines = [line for batch in self.batches for line in json.loads(batch)["logs"]]
        sequences = [line["sequence"] for line in lines]
        numbers = [int(found[1]) for line in lines if (found := NUMBERED.search(line["content"]))]
        return {
            "requests": self.requests,
            "sent_bytes": self.sent_bytes,
            "statuses": self.statuses,
            "lines": len(lines),
            "sequences_in_order": sequences == list(range(1, len(lines) + 1)),
            "numbered": len(numbers),
            "numbers_in_order": numbers == list(range(1, len(numbers) + 1)),
        }


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, code, name, message):
        super().__init__(message)
        self.code = code
        self.body = json.dumps({"error": {"message": message, "code": name}}).encode()


class Registry:
    """All runs, and the responses to their requests."""

    def __init__(self):
        self.runs = {}
        self.answered = 0

    def delay(self, path):
        """The delay of the response to a request for `path`."""
        run = self.runs.get(path.removeprefix(RUNS).partition("/")[0])
        return run.delay if run and path.startswith(RUNS) else 0

    def answer(self, method, path, headers, body):
        """The status and body of the response."""
        try:
            if path.startswith("/control/"):
                return 200, json.dumps(self._control(method, path, body)).encode()
            self.answered += 1
            return 200, self._callback(method, path, headers, body)
        except Refused as refused:
            return refused.code, refused.body

    def _control(self, method, path, body):
        name = path.removeprefix("/control/")
        if name == "usage":
            usage = resource.getrusage(resource.RUSAGE_SELF)
            cpu_seconds = usage.ru_utime + usage.ru_stime
            peak_bytes = peak_memory(os.getpid())
            return {
                "cpu_seconds": cpu_seconds, "requests": self.answered, "peak_bytes": peak_bytes
            }
        if method == "POST":
            wanted = json.loads(body)
            config = json.dumps(wanted["config"]).encode()
            self.runs[name] = Run(config, wanted["token"], wanted["delay"])
            return {}
        run = self.runs.pop(name, None)
        if run is None:
            raise Refused(404, "RUN_NOT_FOUND", "no such run")
        return run.account()

    def _callback(self, method, path, headers, body):
        run_id, _, endpoint = path.removeprefix(RUNS).partition("/")
        run = self.runs.get(run_id)
        if run is None:
            raise Refused(404, "RUN_NOT_FOUND", "no such run")
        if headers.get(b"authorization") != run.token.encode():
            raise Refused(401, "UNAUTHORIZED", "the token is not the run's")
        run.requests[f"{method} {endpoint}"] += 1
        if method == "GET" and endpoint == "status":
            return json.dumps({"status": run.status}).encode()
        if run.status in OVER:
            raise Refused(409, "APPROVAL_DENIED", "the run is over")
        if method == "GET" and endpoint == "config":
            return run.config
        if method != "POST" or endpoint not in ("status", "logs", "plan", "outputs"):
            raise Refused(404, "NOT_FOUND", "no such path")
        run.sent_bytes[endpoint] += len(body)
        body = unpacked(headers.get(b"content-encoding"), body)
        if endpoint == "logs":
            # In the text of a line, both quotes are escaped with backslashes.
            count = body.count(b'"sequence":')
            if count > BATCH_LIMIT or b"\\u0000" in body:
                raise Refused(500, "INTERNAL", "insert into module_run_logs failed")
            run.batches.append(body)
            return b'{"status":"ok","count":%d}' % count
        if endpoint == "status":
            run.status = json.loads(body)["status"]
            run.statuses.append(run.status)
        return b'{"status":"ok"}'


def unpacked(encoding, body):
    """A request's body without its `Content-Encoding`."""
    if encoding in (None, b"identity"):
        pass
    elif encoding == b"gzip":
        inflater = zlib.decompressobj(wbits=31)
        body = inflater.decompress(body, BODY_LIMIT + 1)
    else:
        raise Refused(415, "UNSUPPORTED", f"cannot read {encoding.decode()}")
    if len(body) > BODY_LIMIT:
        raise Refused(413, "TOO_LARGE", f"a body is at most {BODY_LIMIT} bytes")
    return body


class Connection(asyncio.Protocol):
    """One connection: requests one after the other, kept open in between."""

    def __init__(self, registry):
        self.registry = registry
        self.received = bytearray()
        self.head = None
        self.is_answering = False

    def connection_made(self, transport):
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.loop = asyncio.get_running_loop()
        self.used_at = self.loop.time()
        self.idle = self.loop.call_later(IDLE_SECONDS, self._close_if_idle)

    def connection_lost(self, _):
        self.idle.cancel()

    def data_received(self, data):
        self.used_at = self.loop.time()
        self.received += data
        self._advance()

    def _advance(self):
        if self.is_answering:
            return
        if self.head is None:
            end = self.received.find(b"\r\n\r\n")
            if end < 0:
                return
            self.head = self._parse(bytes(self.received[:end]))
            del self.received[:end + 4]
        method, path, headers, length = self.head
        if len(self.received) < length:
            return
        body = bytes(self.received[:length])
        del self.received[:length]
        self.is_answering = True
        if delay := self.registry.delay(path):
            self.loop.call_later(delay, self._answer, method, path, headers, body)
        else:
            self._answer(method, path, headers, body)

    @staticmethod
    def _parse(head):
        request, *lines = head.split(b"\r\n")
        method, target, _ = request.decode().split(" ")
        headers = {}
        for line in lines:
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        length = int(headers.get(b"content-length", 0))
        return method, target.partition("?")[0], headers, length

    def _answer(self, method, path, headers, body):
        if b"transfer-encoding" in headers:
            code, content = 411, b'{"error":{"message":"a length is required"}}'
        else:
            code, content = self.registry.answer(method, path, headers, body)
        if self.transport.is_closing():
            return
        head = (
            f"HTTP/1.1 {code} {REASONS[code]}\r\ncontent-type: application/json\r\n"
            f"cache-control: no-store\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        self.transport.write(head.encode() + content)
        if code == 411:
            # The end of the body is unknown, and so is the beginning of the next request.
            self.transport.close()
            return
        self.head, self.is_answering = None, False
        self.used_at = self.loop.time()
        if self.received:
            self._advance()

    def _close_if_idle(self):
        left = self.used_at + IDLE_SECONDS - self.loop.time()
        if left <= 0 and not self.is_answering:
            self.transport.close()
        else:
            self.idle = self.loop.call_later(max(left, 0.1), self._close_if_idle)


async def serve():
    """Serves until standard input ends."""
    registry = Registry()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(registry), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = loop.create_future()
    loop.add_reader(sys.stdin, lambda: os.read(0, 1) or ended.done() or ended.set_result(None))
    await ended
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
