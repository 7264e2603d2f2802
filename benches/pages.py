"""What the pages of the server cost: the list of layers, and a log that people follow."""

import dataclasses
import http.client
import json
import selectors
import shutil
import socket
import statistics
import time
import urllib.parse

from benches import git_server
from benches.processes import expect
from benches.server import Server
from benches.table import Row

# The lines that the stand-in for terraform prints, ten in a second, each with the moment at which it did.
LINES = 400
PRINT = (
    "i=0; while [ $i -lt {lines} ]; do echo \"printed=$(date +%s%N)=\"; sleep 0.1; i=$((i + 1)); done"
)

# Open pages that follow one run.
PAGES = 200

# How long the processor's time is counted, in seconds.
SECONDS = 12

MEGABYTE = 1024 * 1024


def listed(server, count):
    """The rows of the list of layers, which a browser that is signed in asks for."""
    cookie = _sign_in(server)
    seconds, size = [], 0
    for _ in range(50):
        connection = http.client.HTTPConnection(server.address)
        begun = time.perf_counter()
        connection.request("GET", "/", headers={"Cookie": cookie})
        response = connection.getresponse()
        first = response.read(1)
        seconds.append(time.perf_counter() - begun)
        body = first + response.read()
        connection.close()
        expect(response.status == 200 and b"Next layers" in body, f"{response.status} {body[:200]!r}")
        size = len(body)
    text = f"{count:,} layers: first byte of the page `/`"
    yield Row(text, "ms", [1000 * value for value in seconds], 30, 10)
    yield Row(f"{count:,} layers: size of the page `/`, not compressed", "kB", [size / 1000], 200, 150)


def followed(world, configuration):
    """The rows of a log that is followed by one page, then by many."""
    with git_server.serving(world.directory) as address:
        server = Server(world, "followed-data", configuration(address))
        path = server.stand_in("followed-bin", PRINT.format(lines=LINES))
        with server.running(path):
            cookie = _sign_in(server)
            run = _running(server)
            with Followers(server, cookie, run) as pages:
                pages.open(1)
                one = pages.cost(SECONDS)
                # Lines that come while pages are opened are not counted.
                delays = list(pages.delays)
                pages.open(PAGES - 1)
                all = pages.cost(SECONDS)
                crowded = pages.delays
            server.ask("POST", f"/runs/{run}/cancel")
    shutil.rmtree(server.data)
    for text, values in (("a page", delays), (f"a page of {PAGES}", crowded)):
        expect(len(values) > 90, f"{len(values)} lines arrived")
        text = f"line printed by Terraform: received by {text}"
        yield Row(text, "ms", values, 100, 50)
        # Judged by the worst but one of a hundred.
        slow = statistics.quantiles(values, n=100)[-1]
        yield Row(f"{text}, 99th percentile", "ms", [slow], 500, 200)
    text = f"{PAGES} open pages instead of one follow 10 lines/s"
    share = 100 * (all.cpu_seconds - one.cpu_seconds) / SECONDS
    yield Row(f"{text}: of a processor", "%", [share], 10, 5)
    memory = (all.memory - one.memory) / MEGABYTE
    yield Row(f"{text}: private memory", "MB", [memory], 20, 10)


def _sign_in(server):
    """The cookie of a browser."""
    connection = http.client.HTTPConnection(server.address)
    form = urllib.parse.urlencode({"access-token": server.token})
    head = {
        "Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{server.address}",
    }
    connection.request("POST", "/sign-in", form, head)
    response = connection.getresponse()
    response.read()
    connection.close()
    expect(response.status == 303, f"sign-in: {response.status}")
    return response.headers["Set-Cookie"].partition(";")[0]


def _running(server):
    """The run that prints, once its process has started."""
    while not server.started():
        time.sleep(0.05)
    return server.ask("GET", "/runs?limit=1")["items"][0]["id"]


@dataclasses.dataclass(frozen=True)
class Cost:
    """What the server has taken while pages were read."""

    cpu_seconds: float
    memory: int


class Followers:
    """Open pages of a run: each has a stream of its log, and one of events."""

    def __init__(self, server, cookie, run):
        self.server = server
        self.head = f"Host: {server.address}\r\nCookie: {cookie}\r\nAccept: text/event-stream\r\n\r\n"
        self.log = f"/api/v1/runs/{run}/logs?shown=true"
        self.selector = selectors.DefaultSelector()
        # How late each line came to the first page, in milliseconds.
        self.delays, self.rest = [], b""
        self.sockets = []

    def open(self, count):
        """Opens further pages, and reads what they get first."""
        host, _, port = self.server.address.rpartition(":")
        for _ in range(count):
            for path in (self.log, "/api/v1/events?after=0"):
                page = socket.create_connection((host, int(port)))
                page.sendall(f"GET {path} HTTP/1.1\r\n{self.head}".encode())
                page.setblocking(False)
                self.selector.register(page, selectors.EVENT_READ, not self.sockets)
                self.sockets.append(page)
        self._read(2)
        self.delays = []

    def cost(self, seconds):
        """What the server takes to be read for this long."""
        begun = self.server.cpu_seconds()
        self._read(seconds)
        return Cost(self.server.cpu_seconds() - begun, self.server.memory())

    def _read(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for key, _ in self.selector.select(left):
                received = key.fileobj.recv(65536)
                expect(received, "the server has closed a stream")
                if key.data:
                    self._note(received)

    def _note(self, received):
        now = time.time_ns()
        *lines, self.rest = (self.rest + received).split(b"\n")
        for line in lines:
            if line.startswith(b"data: ") and b"printed=" in line:
                text = json.loads(line[6:])["text"]
                self.delays.append((now - int(text.split("=")[1])) / 1e6)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.selector.close()
        for page in self.sockets:
            page.close()
