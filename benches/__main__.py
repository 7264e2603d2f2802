"""The command line of the benchmarks."""

import argparse
import json
import pathlib
import signal
import sys
import tempfile

from benches import clone, growth, machine, picture, runs, scale, small, table
from benches.processes import Failed
from benches.registry import ROOT, Registry
from benches.world import World

# What is measured, with how many pairs: in the short variant, and in the long one.
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

PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "performance.svg"


def main():
    """Measures what is asked for, or puts into the documentation what was."""
    arguments = parse()
    if arguments.docs:
        return document(arguments.output)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    machine.check_programs()
    runner = str(pathlib.Path(arguments.runner).resolve())
    about = machine.Machine(runner)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as directory, Registry() as registry:
            measure(arguments, pathlib.Path(directory), runner, registry, about)
    except Failed as failed:
        sys.exit(str(failed))
    except KeyboardInterrupt:
        sys.exit(130)


def measure(arguments, directory, runner, registry, about):
    """Measures, and writes and prints what was measured."""
    if arguments.scale:
        world = World(directory / "scale", runner)
        rows, paper = scale.scale(world, registry, about.processors)
        about.measured()
        print(table.write(arguments.output, "scale", rows, about, paper=paper))
        return
    rows = []
    for name in arguments.only or MEASURES:
        function, short, long = MEASURES[name]
        world = World(directory / name, runner)
        for row in function(world, registry, short if arguments.quick else long):
            rows.append(row)
            print("  ".join(row.cells()), file=sys.stderr)
    about.measured()
    print(table.write(arguments.output, "results", rows, about))
    if arguments.growth:
        about = machine.Machine(runner)
        series = growth.growth(World(directory / "growth", runner), registry)
        about.measured()
        text = growth.markdown(series, about)
        table.write_both(arguments.output, "growth", text, growth.document(series, about))
        print(text)


def document(output):
    """Puts what was measured last into the documentation."""
    for name in ("results", "growth", "scale"):
        if (path := output / f"{name}.md").exists():
            table.insert(PAGE, name, path.read_text())
        else:
            print(f"`{path}` is not there: that part stays as it was", file=sys.stderr)
    if (path := output / "growth.json").exists():
        PICTURE.write_text(picture.draw(json.loads(path.read_text())["series"]))


def parse():
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="python3 -m benches", description=__doc__)
    parser.add_argument("runner", nargs="?", help="the path of butler-runner")
    parser.add_argument("--quick", action="store_true", help="fewer pairs")
    parser.add_argument("--growth", action="store_true", help="also how all of it grows")
    parser.add_argument("--scale", action="store_true", help="only how many runs get on at once")
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
