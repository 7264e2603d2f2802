"""How time, memory and requests grow with the number of resources and of lines, with the slopes.

A slope is that of the line `start + slope * size` that misses all points by the least share, so
that the small sizes count as much as the large ones.
"""

import dataclasses
import statistics

from benches import modules
from benches.runs import MEGABYTE, Module, pairs, totals, wrong_lines
from benches.processes import expect

# Sizes, each with how many pairs are measured.
RESOURCES = {10: 9, 100: 9, 1_000: 5, 10_000: 3}
LINES = {1_000: 9, 10_000: 7, 100_000: 3, 1_000_000: 1}

HEAD = ("size", "wall ratio", "runner", "script", "memory", "requests")


@dataclasses.dataclass(frozen=True)
class Point:
    """The results for one size: the medians of `pairs` pairs."""

    size: int
    pairs: int
    ratio: float
    runner_seconds: float
    script_seconds: float
    memory_mb: float
    requests: float


def growth(world, registry):
    """Both series with their points, by the quantity that grows."""
    series = {"resources": [], "lines": []}
    for size, count in RESOURCES.items():
        module = Module(world, registry, f"resources-{size}", modules.resources(size), "plan")
        series["resources"].append(_point(module, size, count))
    for size, count in LINES.items():
        module = Module(world, registry, f"lines-{size}", modules.lines(size), "apply")
        series["lines"].append(_point(module, size, count))
        wrong = sum(wrong_lines(account, size) for account in module.accounts)
        expect(wrong == 0, f"{wrong} lines are lost, doubled or out of order")
    return series


def _point(module, size, count):
    taken = pairs(count, module.by_runner, module.by_script, warm_up=count > 3)
    memory = module.watched().peak_bytes / MEGABYTE
    return Point(
        size,
        count,
        statistics.median(own.seconds / other.seconds for own, other in taken),
        statistics.median(own.seconds for own, _ in taken),
        statistics.median(other.seconds for _, other in taken),
        memory,
        statistics.median(totals(module.accounts)),
    )


def fit(points, name):
    """Start and slope of `name` over the size."""
    weights = [1 / getattr(it, name) ** 2 for it in points]
    sizes, values = [it.size for it in points], [getattr(it, name) for it in points]
    total = sum(weights)
    size = sum(weight * it for weight, it in zip(weights, sizes)) / total
    value = sum(weight * it for weight, it in zip(weights, values)) / total
    spread = sum(weight * (it - size) ** 2 for weight, it in zip(weights, sizes))
    along = sum(
        weight * (it - size) * (found - value)
        for weight, it, found in zip(weights, sizes, values)
    )
    slope = along / spread
    return value - slope * size, slope


def slopes(series):
    """All slopes, by the quantity that grows."""
    names = ("runner_seconds", "script_seconds", "memory_mb", "requests")
    return {
        what: {name: fit(points, name)[1] for name in names} for what, points in series.items()
    }


def markdown(series, machine):
    """A table for each series, with its slopes below, and the machine."""
    parts = []
    for what, points in series.items():
        lines = [(what, *HEAD[1:]), ["---:"] * len(HEAD)]
        for point in points:
            lines.append((
                f"{point.size:,}",
                f"{point.ratio:.2f}",
                f"{point.runner_seconds:.2f} s",
                f"{point.script_seconds:.2f} s",
                f"{point.memory_mb:.1f} MB",
                f"{point.requests:g}",
            ))
        parts.append("\n".join(f"| {' | '.join(cells)} |" for cells in lines))
        slope = slopes({what: points})[what]
        parts.append(
            f"The slopes, per thousand {what}: {slope['runner_seconds'] * 1e6:.1f} ms"
            f" by the runner, {slope['script_seconds'] * 1e6:.1f} ms by the script,"
            f" {slope['memory_mb'] * 1e6:.0f} kB of memory,"
            f" {slope['requests'] * 1000:.2f} requests."
        )
    return "\n\n".join([*parts, machine.sentence()]) + "\n"


def document(series, machine):
    """The results for the JSON file."""
    points = {what: [dataclasses.asdict(it) for it in points] for what, points in series.items()}
    return {"machine": machine.document(), "series": points, "slopes": slopes(series)}
