"""A server that is measured: its process, its API, and a git host that counts requests."""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.parse

from benches import modules, processes

# How long a server may take for anything, in seconds.
LIMIT = 900

# The phases in which nothing is to be done.
REST = ("Succeeded", "Noop")

# Writes when a plan or an apply was started, in nanoseconds, then answers like a stand-in for terraform.
NOTES = """\
case "$1" in
plan) date +%s%N >> '{plans}'; {then} ;;
apply)
  date +%s%N >> '{applies}'
  echo 'Apply complete! Resources: 1 added, 0 changed, 0 destroyed.' ;;
esac
"""


class Server:
    """`serve` on a data directory of its own."""

    def __init__(self, world, name, configuration, *arguments):
        self.world = world
        self.data = world.path(name)
        # Attempts write there when their plans start: nothing else is theirs to write.
        started = world.path(f"{name}-started")
        started.mkdir()
        self.plans, self.applies = started / "plans", started / "applies"
        for layer in configuration["layers"].values():
            layer["isolation"] = {"write": [str(started)]}
        self.file = world.path(f"{name}.yaml")
        # JSON is YAML.
        self.file.write_text(json.dumps(configuration))
        self.arguments = arguments
        self.process = None

    def start(self, path):
        """Starts the server, whose attempts get this PATH; returns the seconds until it is ready."""
        command = [
            self.world.runner, "serve", "--config", self.file, "--data", self.data,
            "--listen", "127.0.0.1:0", "--starts-per-minute", "10000", *self.arguments,
        ]
        environment = self.world.environment | {"PATH": path}
        with open(self.world.path("serve.log"), "ab") as log:
            started = time.perf_counter()
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=log, process_group=0,
            )
        line = self.process.stdout.readline().decode()
        seconds = time.perf_counter() - started
        processes.expect(line.startswith("listening on "), f"the server is not ready: {line!r}")
        self.address = urllib.parse.urlparse(line.split()[-1]).netloc
        self.token = (self.data / "admin.token").read_text().strip()
        return seconds

    def end(self, number=signal.SIGTERM):
        """Ends the server, and not its attempts."""
        if self.process is None:
            return
        self.process.send_signal(number)
        self.process.wait(LIMIT)
        self.process.stdout.close()
        self.process = None

    @contextlib.contextmanager
    def running(self, path):
        """The server runs for the duration of the block, and its attempts end with it."""
        self.start(path)
        try:
            yield self
        finally:
            self.end()
            self.end_attempts()

    def end_attempts(self):
        """Ends the sessions of all attempts that run."""
        for record in self.data.glob("attempts/*/process.json"):
            pid = json.loads(record.read_text())["pid"]
            # The number can be that of another process by now, perhaps of another server's attempt.
            words = ["internal-attempt", os.fspath(record.parent)]
            with contextlib.suppress(OSError):
                if "\0".join(words).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.killpg(pid, signal.SIGKILL)

    def ask(self, method, path):
        """A request to the API; returns the answer."""
        connection = http.client.HTTPConnection(self.address, timeout=LIMIT)
        connection.request(
            method, f"/api/v1{path}", headers={"Authorization": f"Bearer {self.token}"}
        )
        response = connection.getresponse()
        body = response.read()
        connection.close()
        processes.expect(response.status < 300, f"{method} {path}: {response.status} {body!r}")
        return json.loads(body or b"null")

    def layers(self, query=""):
        """All layers."""
        found, after = [], ""
        while True:
            page = self.ask("GET", f"/layers?limit=1000{query}{after}")
            found += page["items"]
            if not page["next"]:
                return found
            after = f"&after={urllib.parse.quote(page['next'])}"

    def until(self, holds, pause=0.2):
        """Waits until `holds` is true of the layers."""
        deadline = time.monotonic() + LIMIT
        while not holds(layers := self.layers()):
            processes.expect(time.monotonic() < deadline, f"no rest: {layers[:3]}")
            time.sleep(pause)

    def at_rest(self, count):
        """Waits until this number of layers has been planned."""
        self.until(lambda all: len(all) == count and all_in(all, REST))

    def cpu_seconds(self):
        """The time on processors so far, with that of children that have ended."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        return sum(map(int, stat.rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """The private memory, in bytes."""
        return processes.memory(self.process.pid, b"RssAnon:")

    def store(self):
        """What changes if the store is written."""
        files = sorted(self.data.glob("store.sqlite*"))
        return [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]

    def started(self):
        """The moments at which plans were started, in nanoseconds."""
        return _moments(self.plans)

    def applied(self):
        """The moments at which applies were started, in nanoseconds."""
        return _moments(self.applies)

    def stand_in(self, name, then=":"):
        """The PATH with a terraform that answers at once, after it has executed `then` for a plan."""
        head, _, rest = modules.stand_in(f"echo '{modules.small_plan()}'").partition("\n")
        notes = NOTES.format(plans=self.plans, applies=self.applies, then=then)
        return self.world.stand_in(name, f"{head}\n{notes}{rest}")


def _moments(file):
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def all_in(layers, phases):
    """Whether all of them are in one of these phases."""
    return all(layer["phase"] in phases for layer in layers)
