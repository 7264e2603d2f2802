"""The picture of the growth: an SVG with six panels, in the reader's colours."""

import math

# The rows of panels: a field of a point, its title, and whether its axis is logarithmic.
ROWS = (
    ("ratio", "wall, runner / script", False),
    ("memory_mb", "memory of the runner, MB", True),
    ("requests", "requests per run", True),
)

WIDTH, HEIGHT = 340, 150
LEFT, TOP, GAP_X, GAP_Y = 60, 40, 70, 62

# The margin on both sides of a panel, for the labels of the first and the last point.
INSET = 34

STYLE = """
svg { font: 12px system-ui, sans-serif; }
.paper { fill: #ffffff; } .text { fill: #57606a; } .title { fill: #1f2328; font-weight: 600; }
.grid { stroke: #d0d7de; } .even { stroke: #57606a; stroke-dasharray: 4 3; }
.line { stroke: #0969da; fill: none; stroke-width: 2; } .point { fill: #0969da; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #0d1117; } .text { fill: #8b949e; } .title { fill: #e6edf3; }
  .grid { stroke: #30363d; } .even { stroke: #8b949e; }
  .line { stroke: #58a6ff; } .point { fill: #58a6ff; }
}
"""


def draw(series):
    """The picture of `series`, which are lists of points by the quantity that grows."""
    shapes = []
    for column, (what, points) in enumerate(series.items()):
        for row, (name, title, is_log) in enumerate(ROWS):
            x, y = LEFT + column * (WIDTH + GAP_X), TOP + row * (HEIGHT + GAP_Y)
            together = [point[name] for it in series.values() for point in it]
            axis = _log_axis(together) if is_log else _linear_axis(together)
            values = [(point["size"], point[name]) for point in points]
            shapes += _panel(x, y, f"{title}, by {what}", values, axis)
    width = LEFT + 2 * WIDTH + GAP_X + 24
    height = TOP + 3 * HEIGHT + 2 * GAP_Y + 34
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        f' aria-label="How time, memory and requests grow with resources and lines">'
    )
    paper = f'<rect class="paper" width="{width}" height="{height}" rx="6"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", paper, *shapes, "</svg>"]) + "\n"


def _log_axis(values):
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    ticks = [10**power for power in range(low, high + 1)]
    return ticks, lambda value: (math.log10(value) - low) / (high - low)


def _linear_axis(values):
    high = max(1.5, math.ceil(max(values) * 2 + 0.4) / 2)
    return [step / 2 for step in range(int(high * 2) + 1)], lambda value: value / high


def _panel(x, y, title, values, axis):
    ticks, place = axis
    sizes = [math.log10(size) for size, _ in values]
    start, span = sizes[0], sizes[-1] - sizes[0]
    shapes = [f'<text class="title" x="{x}" y="{y - 12}">{title}</text>']
    for tick in ticks:
        height = y + HEIGHT * (1 - place(tick))
        # The line on which both take the same time.
        kind = "even" if tick == 1 and 0.5 in ticks else "grid"
        shapes.append(
            f'<line class="{kind}" x1="{x}" x2="{x + WIDTH}" y1="{height:.1f}" y2="{height:.1f}"/>'
        )
        shapes.append(_text(x - 8, height + 4, f"{tick:,g}", "end"))
    dots = []
    for (size, value), power in zip(values, sizes):
        across = x + INSET + (WIDTH - 2 * INSET) * (power - start) / span
        height = y + HEIGHT * (1 - place(value))
        dots.append((across, height))
        shapes.append(_text(across, y + HEIGHT + 18, f"{size:,}", "middle"))
    path = " ".join(f"{across:.1f},{height:.1f}" for across, height in dots)
    shapes.append(f'<polyline class="line" points="{path}"/>')
    for (across, height), (_, value) in zip(dots, values):
        shapes.append(f'<circle class="point" cx="{across:.1f}" cy="{height:.1f}" r="3.5"/>')
        shapes.append(_text(across, height - 8, f"{value:.3g}", "middle"))
    return shapes


def _text(x, y, text, anchor):
    return f'<text class="text" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'
