"""Writes `order.ld`, which has the linker put what runs next to each other: `make order`.

The kernel maps an executable in pieces of 64 kB around what is touched. Functions that run in every
run are a ninth of all, and would pull in half of the file if they lay where their crates do. So
what typical runs need is carried out under callgrind, which names each function that ran, and the
linker's map says in which section of which object that is.

Names are written without what changes with a version of a crate or of the compiler, so that the
list stays right for long: what it does not name is linked as ever.
"""

import argparse
import bisect
import collections
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from benches import git_server, modules, tls
from benches.processes import Failed
from benches.registry import ROOT, Registry
from benches.release_site import Release
from benches.runs import DELAY_SECONDS, settled
from benches.world import World

OUTPUT = ROOT / "order.ld"

VERSION = "1.11.4"

# Of these there is no profile: nothing of them is part of the executable.
FOREIGN = "*/terraform,*/git,*/sh,*/git-*"

# The command of the process that fetches the source.
FETCHES = "internal-fetch"

HEAD = """\
/* Functions that run, in order, so that they are adjacent: see docs/internals/performance-notes.md.
   Written by `make order`. Not needed to build: functions not listed here are linked as usual. */
SECTIONS {
  .text.order : {
"""

TAIL = """\
  }
} INSERT BEFORE .text;
"""

# What callgrind does not see: the kernel calls and the instructions that it does not know.
UNSEEN = ("*(.text.*[pP]idfd*)", "*(.text.*7x86_sha*)", "*crt*.o(.text)")

# What runs also depends on which of two things happens first.
TIMES = 3

# A job has more variables than the benchmarks give to theirs.
VARIABLES = {f"JOB_VARIABLE_{index}": "value" for index in range(40)}

# Names are cut so many letters behind what they share with names of what does not run, and have so
# many at least.
MORE, SHORTEST = 20, 60

# A line of lld's map: addresses, size and alignment, then an input section or, deeper, a symbol.
MAP_LINE = re.compile(r" *[0-9a-f]+ +[0-9a-f]+ +([0-9a-f]+) +\d+ ( *)(.+)")
INPUT_SECTION = re.compile(r"(.+):\((\.text.*)\)")
OBJECT = re.compile(r"(?:.*/)?([^/(]+)(?:\((.+)\))?")


class Profiler:
    """Runs the runner, and keeps which functions ran, by what it did for whom."""

    def __init__(self, world):
        self.world = world
        self.profiles = world.path("profiles")
        self.profiles.mkdir()
        # Some of what is run has nothing on its PATH.
        self.valgrind = shutil.which("valgrind")
        if self.valgrind is None:
            raise Failed("`valgrind` is not installed: it says which functions run")
        # By what was done.
        self.ran = collections.defaultdict(set)
        self.ran_to_fetch = set()

    def run(self, name, arguments, variables):
        """Runs the runner with these `arguments`; it must succeed."""
        command = [
            self.valgrind, "--quiet", "--tool=callgrind", "--demangle=no", "--compress-strings=no",
            "--trace-children=yes", f"--trace-children-skip={FOREIGN}",
            f"--callgrind-out-file={self.profiles}/%p", self.world.runner, *arguments,
        ]
        with open(self.world.log, "wb") as log:
            environment = self.world.environment | VARIABLES | variables
            # Most leave that to the runner.
            environment.pop("BUTLER_CACHE_DIR")
            ended = subprocess.run(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        if ended.returncode != 0:
            said = self.world.log.read_text(errors="replace")
            raise Failed(f"`{' '.join(map(str, arguments))}` ended with {ended.returncode}:\n{said}")
        for profile in self.profiles.iterdir():
            fetches, functions = _functions(profile)
            ran = self.ran_to_fetch if fetches else self.ran[name]
            ran |= functions
            profile.unlink()


def _functions(profile):
    fetches, functions = False, set()
    for line in profile.read_text(errors="replace").splitlines():
        if line.startswith("fn="):
            # A recursive function has a number behind its name.
            functions.add(line[3:].partition("'")[0])
        elif line.startswith("cmd:"):
            fetches = FETCHES in line
    return fetches, functions


def profile(world, registry):
    """Does what runners do; returns the functions that ran, by what was done.

    What comes first shares the fewest pages with what does not run there.
    """
    profiler = Profiler(world)
    tiny = world.repository("tiny", modules.resources(3))

    def execute(name, operation, url, *options, delay=0.0):
        added = registry.add_run(operation, url, delay=delay)
        profiler.run(name, ["execute", *options], added)
        settled(registry, added)

    for delay in (0.0, DELAY_SECONDS) * TIMES:
        execute("a plan", "plan", tiny, delay=delay)
    execute("a plan", "plan", tiny, "-q", "--report-dir", world.path("report"))
    execute("a plan", "plan", world.repository("resources", modules.resources(500)))
    lines = world.repository("lines", modules.lines(20_000))
    for delay in (0.0, DELAY_SECONDS):
        execute("an apply", "apply", tiny, delay=delay)
        execute("an apply", "apply", lines, delay=delay)
        execute("an apply", "destroy", tiny, delay=delay)
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(git_server.serving(world.directory))
        execute("a plan", "plan", f"{served}/tiny/.git")
        endpoint, certificate = stack.enter_context(tls.before(world, registry.port))
        added = registry.add_run("plan", tiny)
        plain = f"http://127.0.0.1:{registry.port}"
        added["BUTLER_ENDPOINT"] = added["BUTLER_ENDPOINT"].replace(plain, endpoint)
        profiler.run("TLS", ["execute"], added | {"SSL_CERT_FILE": str(certificate)})
        settled(registry, added)
    _tools(world, profiler)
    # Last, because it is not there for long.
    return profiler.ran | {"the process that fetches": profiler.ran_to_fetch}


def _tools(world, profiler):
    script = world.path("terraform")
    script.write_text(modules.stand_in(":"))
    script.chmod(0o755)
    release = Release(world, "site", VERSION, script)
    with release.serving() as (url, _):
        variables = release.variables(url)
        profiler.run("other commands", ["tool", "install", VERSION], variables)
        empty = {"PATH": str(world.path("home"))}
        profiler.run("other commands", ["tool", "which", VERSION], variables | empty)
    profiler.run("other commands", ["--version"], {})
    profiler.run("other commands", ["--help"], {})


class Sections:
    """The sections with functions of an executable, by lld's map: their sizes and patterns."""

    def __init__(self, path):
        self.sizes = collections.Counter()
        self.by_symbol = collections.defaultdict(set)
        section = None
        with open(path) as lines:
            for line in lines:
                found = MAP_LINE.fullmatch(line.rstrip())
                if not found:
                    continue
                size, indent, text = found.groups()
                if len(indent) == 16:
                    if section:
                        self.by_symbol[text].add(section)
                    continue
                of_functions = INPUT_SECTION.fullmatch(text)
                section = of_functions and of_functions.groups()
                if section:
                    self.sizes[section] += int(size, 16)
        if not self.by_symbol:
            raise Failed(f"`{path}` is no map of LLD's with functions in sections of their own")

    def of(self, functions):
        """The sections of these functions; some, as the very first, are in none."""
        return set().union(*(self.by_symbol.get(name, ()) for name in functions))


class Patterns:
    """What names sections in a linker script, in this build and in others."""

    def __init__(self, sections, running):
        self.idle = sorted(lasting(name) for _, name in sections.sizes.keys() - running)

    def of(self, section):
        """The pattern of a section."""
        path, name = section
        archive, member = OBJECT.fullmatch(path).groups()
        # Of a function alone, whichever object it comes from.
        if member is None or (archive.endswith(".rlib") and name != ".text"):
            return f"*({self._short(lasting(name))})"
        archive = re.sub(r"-[0-9a-f]{16}\.rlib$", "-*.rlib", archive)
        archive = re.sub(r"-[0-9.]+\.a$", "*.a", archive)
        member = re.sub(r"^[0-9a-f]{16}-", "*-", member)
        # For processors that callgrind does not emulate.
        variants = re.sub(r"-(avx|sse).*", "-*", member)
        return f"*{archive}:{variants}(.text .text.*)"

    def _short(self, name):
        following = bisect.bisect_left(self.idle, name)
        neighbours = self.idle[max(following - 1, 0):following + 1]
        shared = max((len(os.path.commonprefix([name, it])) for it in neighbours), default=0)
        start = name[:max(shared + MORE, SHORTEST)]
        return name if start == name else f"{start}*"


def lasting(name):
    """The name of a section without the hashes of crates, which change with each version."""
    name = re.sub(r"Cs[0-9A-Za-z]+_(?=\d)", "Cs*_", name)
    return re.sub(r"\.llvm\.\d+", ".llvm.*", name)


def script(ran, sections):
    """The linker script."""
    patterns = Patterns(sections, sections.of(set().union(*ran.values())))
    seen = set(UNSEEN)
    parts = [HEAD]
    parts += [f"    {it}\n" for it in UNSEEN]
    for name, functions in ran.items():
        new = {patterns.of(section) for section in sections.of(functions)} - seen
        seen |= new
        parts.append(f"    /* {name} */\n")
        parts += [f"    {it}\n" for it in sorted(new)]
    parts.append(TAIL)
    return "".join(parts)


def main():
    """Profiles an executable that still has its symbols, and writes the script."""
    parser = argparse.ArgumentParser(prog="python3 -m benches.order", description=__doc__)
    parser.add_argument("runner", help="a release build with symbols")
    parser.add_argument("map", help="what the linker said that it is made of")
    parser.add_argument("--output", type=pathlib.Path, default=OUTPUT)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    runner = str(pathlib.Path(arguments.runner).resolve())
    try:
        with tempfile.TemporaryDirectory(prefix="order-") as directory, Registry() as registry:
            sections = Sections(arguments.map)
            ran = profile(World(pathlib.Path(directory, "world"), runner), registry)
    except Failed as failed:
        sys.exit(str(failed))
    arguments.output.write_text(script(ran, sections))


if __name__ == "__main__":
    main()
