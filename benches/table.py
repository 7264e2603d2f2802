"""The results: rows with limits and verdicts, as Markdown and as JSON."""

import dataclasses
import json
import statistics

HEAD = ("measure", "min", "median", "max", "n", "must", "aim", "verdict", "runner / script")

# The formats of numbers.
FORMS = {
    "ratio": "{:.2f}",
    "count": "{:.0f}",
    "MB": "{:.1f} MB",
    "kB": "{:.1f} kB",
    "%": "{:.1f} %",
    "ms": "{:.2f} ms",
    "s": "{:.2f} s",
    "per second": "{:.0f}/s",
}


@dataclasses.dataclass
class Row:
    """One measure: its values, which are better when they are smaller, and what they should be.

    Ratios and times are judged by their medians, because a shared machine makes outliers; counts
    and memory by the worst, because nothing excuses those.
    """

    name: str
    kind: str
    values: list
    must: float | None = None
    aim: float | None = None
    # The series from which ratios are computed, in seconds.
    runner: list = dataclasses.field(default_factory=list)
    script: list = dataclasses.field(default_factory=list)

    @property
    def judged(self):
        """The number that is compared with the limits."""
        worst = self.kind in ("count", "MB", "kB")
        return max(self.values) if worst else statistics.median(self.values)

    @property
    def verdict(self):
        """The verdict: the limit that the row keeps."""
        if self.must is None:
            return "-"
        if self.judged <= self.aim:
            return "aim"
        return "must" if self.judged <= self.must else "**missed**"

    def cells(self):
        """The row, as text."""
        form = FORMS[self.kind].format
        numbers = [min(self.values), statistics.median(self.values), max(self.values)]
        limits = ["-" if limit is None else form(limit) for limit in (self.must, self.aim)]
        both = "-"
        if self.script:
            both = " / ".join(_seconds(statistics.median(it)) for it in (self.runner, self.script))
        shown = [form(number) for number in numbers]
        return [self.name, *shown, str(len(self.values)), *limits, self.verdict, both]

    def document(self):
        """The row for the JSON file."""
        return dataclasses.asdict(self) | {
            "min": min(self.values),
            "median": statistics.median(self.values),
            "max": max(self.values),
            "n": len(self.values),
            "verdict": self.verdict.strip("*"),
        }


def ratios(name, pairs, wall=None, cpu=None):
    """The rows of pairs of runner and script; `wall` and `cpu` are their limits and targets."""
    rows = []
    for what, limits, field in (("wall", wall, "seconds"), ("CPU", cpu, "cpu_seconds")):
        if limits is None:
            continue
        runner, script = ([getattr(it, field) for it in side] for side in zip(*pairs))
        values = [own / other for own, other in zip(runner, script)]
        rows.append(Row(f"{name}: {what}", "ratio", values, *limits, runner, script))
    return rows


def markdown(rows, machine):
    """The table, with its machine."""
    align = ["---"] + ["---:"] * (len(HEAD) - 1)
    lines = [HEAD, align, *(row.cells() for row in rows)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"{table}\n\n{machine.sentence()}\n"


def document(rows, machine):
    """The table for the JSON file, with all values."""
    return {"machine": machine.document(), "rows": [row.document() for row in rows]}


def write(directory, names, text, found):
    """Writes the Markdown and the JSON into files of these names."""
    directory.mkdir(parents=True, exist_ok=True)
    _replace(directory / names[0], text)
    _replace(directory / names[1], json.dumps(found, indent=2) + "\n")


def insert(page, mark, text):
    """Puts `text` between the marks `<!-- mark -->` and `<!-- end of mark -->` of a page."""
    start, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    before, _, rest = page.read_text().partition(start)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"`{page}` has no `{start.strip()}` with `{end}` behind it")
    _replace(page, f"{before}{start}{text}{end}{after}")


def _replace(path, text):
    # Renamed, so that an incomplete file is never visible, even after an interrupt.
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    beside.replace(path)


def _seconds(seconds):
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"
