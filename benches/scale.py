"""Many runs at once on one machine, with one registry and one cache that is empty at first.

A stand-in for terraform answers at once, so that what is seen is what the runners take themselves.
It is a signed release, because one of the runners has to install it, and the others to wait for it.
"""

import dataclasses
import os
import shutil
import statistics
import threading
import time

from benches import modules, processes
from benches.release_site import Release
from benches.runs import MEGABYTE, settled, totals
from benches.table import Row

RUNS = 200

# The number of repetitions, each with an empty cache.
TIMES = 5

# Single runs before each repetition, for comparison, because the speed of the machine varies.
ALONE = 5

VERSION = "1.11.4"

# Sampling all of them takes processor time from them, and the peak memory only grows.
LOOK_SECONDS = 0.25

IDLE_SECONDS = 10

# The default intervals, 30 and 2 seconds, minus their average jitter.
POLL_SECONDS, FLUSH_SECONDS = 28.5, 1.9


def scale(world, registry, processors):
    """The rows, and the extrapolation to 10,000 runs."""
    script = world.path("terraform")
    # The runs do not need PATH.
    script.write_text(modules.stand_in(f"echo '{modules.small_plan()}'"))
    script.chmod(0o755)
    release = Release(world, "site", VERSION, script)
    url = world.repository("module", modules.resources(1))
    empty = world.path("empty")
    empty.mkdir()
    with release.serving() as (site, asked):
        world.environment |= release.variables(site) | {"PATH": str(empty)}

        def add():
            return registry.add_run("plan", url, terraformVersion=VERSION)

        times = [_time(world, registry, add, asked, release) for _ in range(TIMES)]
    together = f"{RUNS} runs at once"
    per_run = [count for it in times for count in it.requests]
    def each(value):
        return [value(it) for it in times]

    def share(seconds):
        return statistics.median(seconds) * RUNS / processors

    rows = [
        Row("one run alone: wall", "s", [it.seconds for time in times for it in time.alone]),
        Row("one run alone: CPU", "s", [it.cpu_seconds for time in times for it in time.alone]),
        Row(f"{together}: each run", "s", [wall for it in times for wall in it.walls]),
        Row(f"{together}: slowest run, over its share of the processors", "ratio",
            each(lambda it: max(it.walls) / share(run.seconds for run in it.alone)), 1.00, 1.00),
        Row(f"{together}: all of them", "s", each(lambda it: it.wall)),
        Row(f"{together}: all of them, over their CPU if each were alone", "ratio",
            each(lambda it: it.wall / share(run.cpu_seconds for run in it.alone))),
        Row(f"{together}: memory of each", "MB",
            [peak / MEGABYTE for it in times for peak in it.memory]),
        Row(f"{together}: downloads of the tool", "count", each(lambda it: it.downloads), 1, 1),
        Row(f"{together}: requests of each", "count", per_run),
        Row(f"{together}: requests", "per second", each(lambda it: sum(it.requests) / it.wall)),
        Row(f"{together}: registry's processor time for a request", "ms",
            each(lambda it: 1000 * it.registry_seconds / sum(it.requests))),
        Row(f"{together}: registry's share of one processor", "ratio",
            each(lambda it: it.registry_seconds / it.wall)),
        Row(f"log requests that {IDLE_SECONDS} idle seconds cost a run", "count",
            [_idle(world, registry, url)], 0, 0),
    ]
    a_request = statistics.median(it.registry_seconds / sum(it.requests) for it in times)
    return rows, _on_paper(statistics.median(per_run), a_request)


@dataclasses.dataclass
class Time:
    """Samples of all concurrent runs, and of some single runs before them."""

    alone: list
    walls: list
    memory: list
    wall: float
    downloads: int
    requests: list
    registry_seconds: float


def _time(world, registry, add, asked, release):
    # The first of them installs the tool.
    alone = [_alone(world, registry, add()) for _ in range(ALONE + 1)][1:]
    shutil.rmtree(world.path("cache"))
    asked.clear()
    added = [add() for _ in range(RUNS)]
    before = registry.usage()["cpu_seconds"]
    walls, memory, wall = _together(world, added)
    registry_seconds = registry.usage()["cpu_seconds"] - before
    downloads = asked[release.file]
    requests = totals(settled(registry, variables) for variables in added)
    return Time(alone, walls, memory, wall, downloads, requests, registry_seconds)


def _alone(world, registry, variables):
    ended = world.by_runner(variables)
    settled(registry, variables)
    return ended


def _together(world, added):
    """Starts all runs at once. Returns the time and memory of each, and the total time."""
    started, walls, peaks = {}, [], {}
    ended = threading.Event()

    def look():
        while not ended.wait(LOOK_SECONDS):
            for pid in list(started):
                peaks[pid] = max(peaks.get(pid, 0), processes.peak_memory(pid))

    begin = time.monotonic()
    logs = {}
    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    with processes.ended_on_interrupt(started):
        for index, variables in enumerate(added):
            log = world.path(f"log-{index}")
            pid = processes.spawn(world.execute(), world.environment | variables, log)
            started[pid] = time.monotonic()
            logs[pid] = log
        while len(walls) < len(added):
            pid, status, _ = os.wait4(-1, 0)
            processes.check(world.execute(), status, logs[pid])
            walls.append(time.monotonic() - started.pop(pid))
    wall = time.monotonic() - begin
    ended.set()
    watcher.join()
    return walls, [peak for peak in peaks.values() if peak], wall


def _idle(world, registry, url):
    """The number of additional log requests of a run that is silent for longer.

    Both wait until what was said before is sent.
    """
    counts = []
    for seconds in (2 * FLUSH_SECONDS, 2 * FLUSH_SECONDS + IDLE_SECONDS):
        script = modules.stand_in(f"/bin/sleep {seconds}; echo '{modules.small_plan()}'")
        path = world.stand_in(f"idle-{len(counts)}", script)
        variables = registry.add_run("plan", url)
        world.by_runner(variables | {"PATH": path})
        counts.append(settled(registry, variables)["requests"].get("POST logs", 0))
    return counts[1] - counts[0]


def _on_paper(requests, cpu_seconds):
    """The extrapolation to 10,000 concurrent runs, from the requests of a run and the cost of a request."""
    runs, within = 10_000, 60
    asked = runs * requests / within
    polls, flushes = runs / POLL_SECONDS, runs / FLUSH_SECONDS

    def processors(rate):
        return f"{rate:,.0f} requests a second, {rate * cpu_seconds:.1f} processors"

    return (
        f"\nFor {runs:,} runs that start within a minute, with the {requests:g} requests of a run"
        f" and {cpu_seconds * 1000:.2f} ms of processor time for each:\n\n"
        f"- their requests, {runs:,} x {requests:g} / {within} s: {processors(asked)};\n"
        f"- as long as they go on, the question whether they were cancelled, {runs:,} /"
        f" {POLL_SECONDS} s: {processors(polls)};\n"
        f"- if every one of them prints all the time, {runs:,} / {FLUSH_SECONDS} s:"
        f" {processors(flushes)}; a run that prints nothing sends nothing.\n"
    )
