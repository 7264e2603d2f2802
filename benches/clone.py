"""The clone of a large repository over http and from a directory, beside git's own.

The runner's clone is its phase `source`, as the run's `result.json` has it; the run validates with
a stand-in for terraform, which takes no time. Everything is on tmpfs.
"""

import contextlib
import dataclasses
import itertools
import json
import pathlib
import random
import tempfile

from benches import git_server, modules, table
from benches.runs import MEGABYTE, pairs
from benches.table import Row
from benches.world import World

FILES = 20_000
COMMITS = 200

BY_BRANCH = "git clone --quiet --depth 1 --branch main {url} clone\n"

# The run fails with an error if files are missing.
COMPLETE = f"[ $(find . -name 'file*.txt' | wc -l) -eq {FILES} ] || exit 1"

BY_COMMIT = """\
git init --quiet clone
cd clone
git fetch --quiet --depth 1 {url} {commit}
git checkout --quiet FETCH_HEAD
"""


@dataclasses.dataclass(frozen=True)
class Phase:
    """The duration of the phase."""

    seconds: float


def clones(world, _registry, count):
    """Over http and from a directory, by branch and by commit id."""
    with contextlib.ExitStack() as stack:
        memory = pathlib.Path("/dev/shm")
        place = memory if memory.is_dir() else None
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=place))
        world = World(pathlib.Path(directory, "world"), world.runner)
        repository = world.path("repositories", "large.git")
        commit = make_repository(world, repository)
        url = stack.enter_context(git_server.serving(world.path("repositories"))) + "/large.git"
        path = world.stand_in("bin", modules.stand_in(":", validate=COMPLETE))
        servers = (("", url), ("`file://`, ", f"file://{repository}"))
        ways = (("branch", "main", BY_BRANCH), ("commit id", commit, BY_COMMIT))
        for (server, url), (way, reference, text) in itertools.product(servers, ways):
            name = server + way
            command = world.script("clone", text.format(url=url, commit=commit))
            runner = phase(world, {"PATH": path}, url, reference)
            taken = pairs(count, runner, lambda command=command: world.by_script(command))
            what = f"clone of {FILES:,} files, {COMMITS} commits, {name}"
            yield from table.ratios(what, taken, wall=(1.30, 1.00))
            seen = world.watch({"PATH": path}, *arguments(world, url, reference), children=True)
            peaks = [seen.fetcher_peak_bytes / MEGABYTE]
            yield Row(f"memory of the child that fetches, {name}", "MB", peaks)


def phase(world, variables, url, reference):
    """A function that executes a run and returns the duration of its phase `source`."""
    words = arguments(world, url, reference)
    result_file = world.path("report", "result.json")

    def carry_out():
        world.by_runner(variables, *words)
        result = json.loads(result_file.read_text())
        result_file.unlink()
        phases = result["timings"]["phases"]
        return Phase(sum(it["duration_seconds"] for it in phases if it["phase"] == "source"))

    return carry_out


def arguments(world, url, reference):
    """The arguments of a run that mainly clones."""
    config = world.path("run.json")
    source = {"type": "git", "gitRepo": url, "gitRef": reference}
    config.write_text(json.dumps({"operation": "validate", "source": source}))
    return ["--config", config, "--report-dir", world.path("report")]


def make_repository(world, repository):
    """Makes a bare repository; returns the id of its last commit."""
    repository.mkdir(parents=True)
    world.git(repository, "init", "--quiet", "--bare", "--initial-branch", "main")
    world.git(repository, "config", "uploadpack.allowAnySHA1InWant", "true")
    world.git(repository, "fast-import", "--quiet", input=_history())
    world.git(repository, "gc", "--quiet")
    return world.git(repository, "rev-parse", "main").decode().strip()


def _history():
    """The stream of a history: all files at first, then a few that change in each commit."""
    numbers = random.Random(1)
    words = [f"{numbers.getrandbits(40):x}" for _ in range(5000)]

    def file(index, commit):
        text = " ".join(numbers.choices(words, k=120))
        content = f"file {index} of commit {commit}\n{text}\n".encode()
        path = f"directory{index % 100}/part{index // 100 % 20}/file{index}.txt"
        return b"M 100644 inline %b\ndata %d\n%b\n" % (path.encode(), len(content), content)

    stream = []
    for commit in range(COMMITS):
        who = f"bench <bench@localhost> {10**9 + commit} +0000"
        header = f"commit refs/heads/main\ncommitter {who}\ndata 6\nchange\n"
        stream.append(header.encode())
        changed = range(FILES) if commit == 0 else numbers.sample(range(FILES), 20)
        stream += (file(index, commit) for index in changed)
        if commit == 0:
            main = modules.resources(1)["main.tf"].encode()
            stream.append(b"M 100644 inline main.tf\ndata %d\n%b\n" % (len(main), main))
    return b"".join(stream)
