"""What the server costs, and how that grows with the number of layers.

A stand-in for terraform answers at once, so that what is seen is what the server and the runner take.
"""

import shutil
import subprocess
import time

from benches import git_server, modules, pages, processes
from benches.processes import expect
from benches.registry import ROOT
from benches.server import Server, all_in
from benches.table import Row

MEGABYTE = 1024 * 1024

# Numbers of layers.
SIZES = (0, 10, 100, 1000, 10_000)
QUICK = (0, 10, 100)

# The layers of one set, at most.
SET = 1000

# Polls that the idle server makes, one in a second.
POLLS = 15

# Limits of the private memory in MB, by the number of layers.
MEMORY = {0: (10, 6), 1000: (25, 12), 10_000: (120, 60)}

# Limits of the start in seconds, by the number of layers.
START = {10_000: (1.0, 0.3)}

# Attempts that run while the server is killed.
ATTEMPTS = 100


def serve(world, sizes):
    """All rows; `sizes` are numbers of layers."""
    for size in sizes:
        yield from _grown(world, size)
    yield from _many_of_a_thousand(world)
    yield from _one(world)
    yield from _approved(world)
    yield from _followed(world)
    yield from _found_again(world)
    yield from _cycles()
    yield from _resources()


def repository(world, name, count, poll="1s"):
    """A bare repository with a clone to push from, and the configuration of its layers."""
    files = {
        f"s{index // SET}/l{index % SET:03}/main.tf": text
        for index in range(count)
        for text in modules.resources(1).values()
    }
    files["README.md"] = "layers"
    world.repository(name, files)
    layers = {
        f"s{number}": {"repository": "infra", "ref": "main", "paths": [f"s{number}/*"]}
        for number in range(-(-count // SET))
    }
    def configuration(address):
        repository = {"url": f"{address}/{name}/.git", "poll": poll}
        # The layers have no state backend, so their plans could not be applied.
        defaults = {"strategy": "plan-only"}
        return {"repositories": {"infra": repository}, "defaults": defaults, "layers": layers}

    return configuration


def change(world, name, paths, number):
    """Commits another version of these modules."""
    for path in paths:
        file = world.path(name, path, "main.tf")
        file.write_text(modules.resources(number)["main.tf"])
    world.git(world.path(name), "commit", "--quiet", "--all", "--message", f"change {number}")


def _grown(world, size):
    """Memory, start, and what the server does when nothing happens."""
    name = f"grown-{size}"
    configuration = repository(world, name, size)
    with git_server.serving(world.directory) as address:
        server = Server(world, f"{name}-data", configuration(address), "--concurrency", "8")
        path = server.stand_in(f"{name}-bin")
        begun = time.perf_counter()
        with server.running(path):
            server.at_rest(size)
        first = time.perf_counter() - begun
        starts = []
        for _ in range(5):
            starts.append(server.start(path))
            server.end()
        with server.running(path):
            server.at_rest(size)
            _settle(server, size)
            asked, store, cpu = len(git_server.ASKED), server.store(), server.cpu_seconds()
            while len(git_server.ASKED) < asked + POLLS:
                time.sleep(0.05)
            cpu, asked = server.cpu_seconds() - cpu, len(git_server.ASKED) - asked
            writes = sum(one != other for one, other in zip(store, server.store(), strict=True))
            memory = server.memory()
            shown = list(pages.listed(server, size)) if size == SET else []
    shutil.rmtree(world.path(name))
    shutil.rmtree(server.data)
    layers = f"{size:,} layers"
    if size:
        yield Row(f"{layers}: all of them planned for the first time", "s", [first])
    yield Row(f"{layers}: start of the process until it is ready", "s", starts, *START.get(size, ()))
    yield Row(f"{layers}: private memory", "MB", [memory / MEGABYTE], *MEMORY.get(size, ()))
    limits = (20, 5) if size == 1000 else ()
    yield Row(f"{layers}, nothing happens: CPU of a poll", "ms", [1000 * cpu / asked], *limits)
    yield Row(f"{layers}, nothing happens: files of the store written", "count", [writes], 0, 0)
    yield from shown


def _settle(server, size):
    """Waits until the work of a start is done, and the next poll has been asked for."""
    # It looks for old runs of one layer after the other.
    time.sleep(size * 0.001)
    asked = len(git_server.ASKED)
    while len(git_server.ASKED) < asked + 2:
        time.sleep(0.05)


def _many_of_a_thousand(world):
    """A commit that changes ten of a thousand layers."""
    name, seconds = "many", []
    configuration = repository(world, name, SET, "1h")
    with git_server.serving(world.directory) as address:
        server = Server(world, "many-data", configuration(address), "--concurrency", "10")
        with server.running(server.stand_in("many-bin")):
            server.at_rest(SET)
            for number in range(2, 9):
                known = set(server.data.glob("attempts/*"))
                change(world, name, [f"s0/l{index * 97:03}" for index in range(10)], number)
                server.ask("POST", "/layers/s0.s0.l000/sync")
                server.until(lambda all: _changed(server, known) and all_in(all, ("Succeeded",)), 0.5)
                new = set(server.data.glob("attempts/*")) - known
                records = [(path / "process.json").stat().st_mtime for path in new]
                expect(len(records) == 10, f"{len(records)} attempts instead of 10")
                seconds.append(max(records) - git_server.ASKED[-1])
    shutil.rmtree(world.path(name))
    shutil.rmtree(server.data)
    text = "a commit changes 10 of 1,000 layers: fetched to all 10 attempts started"
    yield Row(text, "s", seconds, 1.0, 0.3)


def _changed(server, known):
    return len(set(server.data.glob("attempts/*")) - known) >= 10


def _one(world):
    """From a commit to the begin of its plan."""
    name, milliseconds = "one", []
    configuration = repository(world, name, 4, "1h")
    with git_server.serving(world.directory) as address:
        server = Server(world, "one-data", configuration(address))
        with server.running(server.stand_in("one-bin")):
            server.at_rest(4)
            for number in range(2, 23):
                known = len(server.started())
                change(world, name, ["s0/l000"], number)
                pushed = time.time_ns()
                server.ask("POST", "/layers/s0.s0.l000/sync")
                while len(server.started()) == known:
                    time.sleep(0.005)
                milliseconds.append((server.started()[-1] - pushed) / 1e6)
                server.at_rest(4)
    shutil.rmtree(world.path(name))
    shutil.rmtree(server.data)
    yield Row("commit pushed and told by `sync`: plan process started", "ms", milliseconds, 300, 100)


def _approved(world):
    """From an approval to the begin of its apply."""
    name, milliseconds = "approved", []
    configuration = repository(world, name, 4, "1h")
    with git_server.serving(world.directory) as address:
        approving = configuration(address)
        approving["defaults"] = {"strategy": "approve", "backend": {"type": "local"}}
        server = Server(world, "approved-data", approving)
        with server.running(server.stand_in("approved-bin")):
            for number in range(2, 23):
                server.until(lambda all: _waits_for_approval(all, "s0.s0.l000"), 0.05)
                known = len(server.applied())
                approved = time.time_ns()
                server.ask("POST", "/layers/s0.s0.l000/apply")
                server.until(lambda _: len(server.applied()) > known, 0.005)
                milliseconds.append((server.applied()[-1] - approved) / 1e6)
                server.until(lambda all: _layer(all, "s0.s0.l000")["phase"] == "Noop")
                change(world, name, ["s0/l000"], number)
                server.ask("POST", "/layers/s0.s0.l000/sync")
    shutil.rmtree(world.path(name))
    shutil.rmtree(server.data)
    yield Row("plan approved: apply process started", "ms", milliseconds, 200, 100)


def _followed(world):
    """A log that pages follow."""
    yield from pages.followed(world, repository(world, "followed", 1, "1h"))
    shutil.rmtree(world.path("followed"))


def _layer(layers, name):
    return next((layer for layer in layers if layer["name"] == name), {"phase": "", "reasons": []})


def _waits_for_approval(layers, name):
    reasons = _layer(layers, name)["reasons"]
    return any(reason["text"].startswith("waiting for approval") for reason in reasons)


def _found_again(world):
    """A restart while attempts run."""
    name, seconds = "again", []
    configuration = repository(world, name, ATTEMPTS, "1h")
    with git_server.serving(world.directory) as address:
        arguments = ("--concurrency", str(ATTEMPTS))
        server = Server(world, "again-data", configuration(address), *arguments)
        path = server.stand_in("again-bin", "exec /bin/sleep 600")
        with server.running(path):
            while len(server.started()) < ATTEMPTS:
                time.sleep(0.1)
            for _ in range(5):
                server.end(processes.signal.SIGKILL)
                begun = time.perf_counter()
                server.start(path)
                server.until(
                    lambda all: len(all) == ATTEMPTS and all_in(all, ("ClosingOut",)), 0.01
                )
                seconds.append(time.perf_counter() - begun)
    shutil.rmtree(world.path(name))
    shutil.rmtree(server.data)
    yield Row(f"start while {ATTEMPTS} attempts run: all of them found again", "s", seconds, 2.0, 0.5)


def _cycles():
    """How fast the store alone is; the benchmark of the crate measures it."""
    for line in _measured("store"):
        # Seconds of 1,000 cycles: of a row, smaller is better.
        callers, seconds = (float(word.partition("=")[2]) for word in line.split())
        text = f"1,000 cycles of commit, claim and finish in the store, callers: {callers:.0f}"
        yield Row(text, "s", [seconds], 2.0, 0.5)


def _resources():
    """How long the server's only thread is busy with 10,000 custom resources."""
    texts = {"first": "read at the start", "changed": "read after a change of one"}
    for line in _measured("resources"):
        namespaces, (name, seconds) = (word.split("=") for word in line.split())
        text = f"10,000 custom resources, namespaces: {namespaces[1]}: {texts[name]}"
        yield Row(text, "s", [float(seconds)], 1.0, 0.5)


def _measured(bench):
    """The lines of a benchmark of the server's crate."""
    command = ["cargo", "bench", "--locked", "--quiet", "--package", "butler-server", "--bench", bench]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return [line for line in done.stdout.split("\n") if line]
