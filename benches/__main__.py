"""The command line of the benchmarks."""

import argparse
import json
import pathlib
import shutil
import signal
import sys
import tempfile

from benches import clone, growth, machine, picture, runs, scale, serve, shared, small, table
from benches.processes import Failed
from benches.registry import ROOT, Registry
from benches.world import World

# The groups, with their number of pairs in the short and in the long variant.
MEASURES = {
    "tiny": (runs.tiny, 9, 41),
    "resources": (runs.five_hundred, 5, 31),
    "lines": (runs.many_lines, 2, 7),
    "large-plan": (runs.large_plan, 1, 5),
    "clone": (clone.clones, 2, 15),
    "start": (small.start, 5, 20),
    "size": (small.size, 1, 1),
    "install": (small.install, 5, 31),
}

# The result files in Markdown and in JSON, by their marks in the documentation.
FILES = {
    "results": ("table.md", "results.json"),
    "growth": ("growth.md", "growth.json"),
    "scale": ("scale.md", "scale.json"),
    "serve": ("serve.md", "serve.json"),
    "shared": ("shared.md", "shared.json"),
}

PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "performance.svg"


def main():
    """Measures the requested groups, or writes the last results into the documentation."""
    arguments = parse()
    if arguments.docs:
        return document(arguments.output)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    machine.check_programs()
    runner = str(pathlib.Path(arguments.runner).resolve())
    about = machine.Machine(runner)
    machine.forget(runner)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as directory, Registry() as registry:
            measure(arguments, pathlib.Path(directory), runner, registry, about)
    except Failed as failed:
        sys.exit(str(failed))
    except KeyboardInterrupt:
        sys.exit(130)


def measure(arguments, directory, runner, registry, about):
    """Measures; writes and prints the results."""
    world = World(directory / "world", runner)
    if arguments.growth:
        series = growth.growth(world, registry)
        about.measured()
        name, text = "growth", growth.markdown(series, about)
        found = growth.document(series, about)
    else:
        if arguments.scale:
            name = "scale"
            rows, paper = scale.scale(world, registry, about.processors)
        elif arguments.shared:
            name = "shared"
            rows, paper = shared.shared(world, shared.QUICK if arguments.quick else shared.SIZES)
        elif arguments.serve:
            name, paper = "serve", ""
            rows = list(serve_rows(world, arguments.quick))
        else:
            name, paper = "results", ""
            rows = list(table_rows(arguments, directory, runner, registry))
        about.measured()
        text = table.markdown(rows, about) + paper
        found = table.document(rows, about)
    table.write(arguments.output, FILES[name], text, found)
    print(text)


def table_rows(arguments, directory, runner, registry):
    """The rows of the requested groups, each printed as soon as it is measured."""
    for name in arguments.only or MEASURES:
        function, short, long = MEASURES[name]
        # A completed group must not leave files or caches that affect the next one.
        place = directory / name
        for row in function(World(place, runner), registry, short if arguments.quick else long):
            print("  ".join(row.cells()), file=sys.stderr)
            yield row
        shutil.rmtree(place)


def serve_rows(world, quick):
    """The rows of the server, each printed as soon as it is measured."""
    for row in serve.serve(world, serve.QUICK if quick else serve.SIZES):
        print("  ".join(row.cells()), file=sys.stderr)
        yield row


def document(output):
    """Writes the last results into the documentation."""
    for mark, (name, _) in FILES.items():
        if (path := output / name).exists():
            table.insert(PAGE, mark, path.read_text())
        else:
            print(f"`{path}` is not there: that part stays as it was", file=sys.stderr)
    if (path := output / "growth.json").exists():
        PICTURE.write_text(picture.draw(json.loads(path.read_text())["series"]))


def parse():
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python3 -m benches", description=__doc__)
    parser.add_argument("runner", nargs="?", help="the path of butler-runner")
    parser.add_argument("--quick", action="store_true", help="fewer pairs")
    parser.add_argument("--growth", action="store_true", help="only how all of it grows")
    parser.add_argument("--scale", action="store_true", help="only how many runs get on at once")
    parser.add_argument("--serve", action="store_true", help="only the server")
    parser.add_argument(
        "--shared", action="store_true", help="only servers that share a store in PostgreSQL"
    )
    parser.add_argument(
        "--only", action="append", choices=MEASURES, help="one measure; can be repeated"
    )
    parser.add_argument(
        "--docs", action="store_true", help="put what was measured last into docs/performance.md"
    )
    output = ROOT / "target" / "bench"
    parser.add_argument(
        "--output", type=pathlib.Path, default=output, help="where the results go"
    )
    arguments = parser.parse_args()
    if not arguments.docs and arguments.runner is None:
        parser.error("the path of butler-runner is needed: `make build` says where it is")
    return arguments


if __name__ == "__main__":
    main()
