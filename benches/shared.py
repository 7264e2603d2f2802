"""What several servers cost that share a store in PostgreSQL.

A stand-in for terraform answers at once, so that what is seen is what the servers, the runner and the database take.
"""

import shutil
import signal
import statistics
import time
import urllib.request

from benches import database, git_server
from benches.serve import SET, change, repository
from benches.server import Server, all_in
from benches.table import Row

MEGABYTE = 1024 * 1024

# Numbers of layers. A commit changes a tenth of them.
SIZES = (1000, 10_000)
QUICK = (100,)

# Commits.
COMMITS = 3

# How often the server that decides is killed.
KILLS = 5

# The limit until another server decides, in seconds.
TAKEOVER = (30.0, 20.0)

# The extrapolation.
LAYERS = 100_000
WITHIN = 3600


def shared(world, sizes):
    """All rows, and what follows from them for more layers."""
    rows, last = [], None
    for size in sizes:
        last = _Grown(world, size)
        rows += last.rows()
    rows.append(_takeover(world))
    return rows, last.on_paper()


class _Grown:
    """One server with this number of layers."""

    def __init__(self, world, size):
        self.size, self.tenth = size, size // 10
        name = f"shared-{size}"
        configuration = repository(world, name, size, "1h")
        self.seconds, self.cpu, self.database_cpu, self.transactions = [], [], [], []
        with database.running() as store, git_server.serving(world.directory) as address:
            arguments = ("--concurrency", "8", "--store", store.address)
            server = Server(world, f"{name}-data", configuration(address), *arguments)
            with server.running(server.stand_in(f"{name}-bin")):
                begun = time.perf_counter()
                server.at_rest(size)
                self.first = time.perf_counter() - begun
                before = store.size()
                for number in range(2, 2 + COMMITS):
                    self._commit(world, name, server, store, number)
                store.query("VACUUM")
                self.growth = (store.size() - before) / (COMMITS * self.tenth)
                self.memory = server.memory()
        shutil.rmtree(world.path(name))
        shutil.rmtree(server.data)

    def _commit(self, world, name, server, store, number):
        change(world, name, [f"s{it // SET}/l{it % SET:03}" for it in range(self.tenth)], number)
        known, cpu = len(server.started()), server.cpu_seconds()
        database_cpu, transactions = store.cpu_seconds(), store.transactions()
        begun = time.perf_counter()
        server.ask("POST", "/layers/s0.s0.l000/sync")
        while len(server.started()) < known + self.tenth:
            time.sleep(0.05)
        server.until(lambda all: all_in(all, ("Succeeded",)), 0.5)
        self.seconds.append(time.perf_counter() - begun)
        self.cpu.append((server.cpu_seconds() - cpu) / self.tenth)
        self.database_cpu.append((store.cpu_seconds() - database_cpu) / self.tenth)
        self.transactions.append((store.transactions() - transactions) / self.tenth)

    def rows(self):
        """The rows of this number of layers."""
        layers = f"{self.size:,} layers"
        of_commit = f"{layers}, a commit changes {self.tenth:,}"
        rates = [self.tenth / seconds for seconds in self.seconds]
        return [
            Row(f"{layers}: all of them planned for the first time", "s", [self.first]),
            Row(f"{layers}: private memory of the server", "MB", [self.memory / MEGABYTE]),
            Row(f"{of_commit}: until all of them are planned", "s", self.seconds),
            Row(f"{of_commit}: attempts", "per second", rates),
            Row(f"{of_commit}: CPU of server and runner, per attempt", "ms", _ms(self.cpu)),
            Row(f"{of_commit}: CPU of the database, per attempt", "ms", _ms(self.database_cpu)),
            Row(f"{of_commit}: transactions of the database, per attempt", "count", self.transactions),
            Row(f"{of_commit}: growth of the database, per run", "kB", [self.growth / 1000]),
        ]

    def on_paper(self):
        """The extrapolation to more layers, from what an attempt costs."""
        attempts = LAYERS // 10
        rate = attempts / WITHIN
        database_cpu = statistics.median(self.database_cpu)
        cpu, transactions = statistics.median(self.cpu), statistics.median(self.transactions)
        return (
            f"\nFor {LAYERS:,} layers and a commit that changes {attempts:,} of them, with what an attempt costs"
            f" with {self.size:,} layers: to plan them within an hour takes {rate:.1f} attempts a second. That is\n\n"
            f"- {rate * transactions:,.0f} transactions a second, and {rate * database_cpu:.2f} processors of the"
            f" database;\n"
            f"- {rate * cpu:.1f} processors for the server and the runners, without Terraform;\n"
            f"- {attempts * self.growth / 1e6:,.0f} MB more in the database for each such commit, until `history`"
            f" removes its runs;\n"
            f"- {self.memory / MEGABYTE / self.size * LAYERS:,.0f} MB of memory of the server, if it grows with the"
            f" layers.\n\n"
            "Transactions that write are made one after the other, so one database is the limit, and not the number of"
            " servers.\n"
        )


def _ms(values):
    return [1000 * value for value in values]


def _takeover(world):
    """From the death of the server that decides until the other one does."""
    name, seconds = "takeover", []
    configuration = repository(world, name, 4, "1h")
    with database.running() as store, git_server.serving(world.directory) as address:
        arguments = ("--store", store.address, "--metrics-open")
        servers = [
            Server(world, f"{name}-data-{it}", configuration(address), *arguments) for it in range(2)
        ]
        paths = [server.stand_in(f"{name}-bin-{it}") for it, server in enumerate(servers)]
        try:
            for server, path in zip(servers, paths):
                server.start(path)
            servers[0].at_rest(4)
            first = next(it for it in range(2) if _decides(servers[it]))
            for _ in range(KILLS):
                other = servers[1 - first]
                servers[first].end(signal.SIGKILL)
                begun = time.perf_counter()
                while not _decides(other):
                    time.sleep(0.02)
                seconds.append(time.perf_counter() - begun)
                servers[first].start(paths[first])
                first = 1 - first
        finally:
            for server in servers:
                server.end()
                server.end_attempts()
    shutil.rmtree(world.path(name))
    text = "the server that decides is killed: another one decides"
    return Row(text, "s", seconds, *TAKEOVER)


def _decides(server):
    with urllib.request.urlopen(f"http://{server.address}/metrics") as answer:
        return b"\nbutler_decides 1\n" in answer.read()
