#!/usr/bin/env python3
"""Records a run at a terminal, as an asciinema cast (version 2) and as an animated SVG of it.

    docs/recording/record.py BUTLER_RUNNER

It applies `module/` in a temporary directory with the Terraform on PATH, and writes `apply.cast` and
`apply.svg` to its own directory. It needs only Python. An unknown escape sequence is an error, so the
picture always matches a terminal.
"""

import codecs
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unicodedata
from xml.sax.saxutils import escape

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS, ROWS = 100, 30
ARGUMENTS = ["execute", "--local", "--module-dir", ".", "--operation", "apply"]
PROMPT = "\x1b[32m$\x1b[0m "

# The minimum duration of a frame, and the duration of the last frame, in seconds.
FRAME, LAST = 0.1, 5.0
# The size of a character, in pixels.
WIDTH, HEIGHT = 8.4, 18
COLOURS = {31: "#e06c75", 32: "#98c379", 33: "#e5c07b", 34: "#61afef", 35: "#c678dd", 36: "#56b6c2"}
BACKGROUND, FOREGROUND = "#1e222a", "#c8ccd4"


def record(runner):
    """Return the output of the run as pairs of seconds since the start and text."""
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory).resolve()
        module, home = place / "network", place / "home"
        shutil.copytree(HERE / "module", module)
        home.mkdir()
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PATH": os.environ["PATH"],
            "TERM": "xterm-256color",
        }
        start = time.monotonic()
        events = [(0.0, PROMPT)]
        for letter in f"butler-runner {' '.join(ARGUMENTS)}":
            events.append((events[-1][0] + 0.04, letter))
        events.append((events[-1][0] + 0.5, "\r\n"))
        typed = events[-1][0]
        child = subprocess.Popen(
            [runner, *ARGUMENTS],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=module,
            env=environment,
            start_new_session=True,
        )
        os.close(slave)
        decoder = codecs.getincrementaldecoder("utf-8")()
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:
                break
            if not data:
                break
            text = decoder.decode(data).replace(str(place), "~").replace(str(HERE.parents[1]), "~")
            events.append((typed + time.monotonic() - start, text))
        if child.wait() != 0:
            sys.exit(f"the run failed:\n{''.join(text for _, text in events)}")
        events.append((events[-1][0] + 0.3, PROMPT))
        return events


def cast(events):
    header = {
        "version": 2,
        "width": COLUMNS,
        "height": ROWS,
        "title": "butler-runner applies a module",
        "env": {"TERM": "xterm-256color"},
    }
    lines = [json.dumps(header)]
    lines += [json.dumps([round(at, 3), "o", text], ensure_ascii=False) for at, text in events]
    return "\n".join(lines) + "\n"


class Screen:
    """A minimal terminal: lines that wrap and scroll, and characters with a style."""

    TOKEN = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|\x1b|[^\x1b]")

    def __init__(self):
        self.rows = [[] for _ in range(ROWS)]
        self.row, self.column = 0, 0
        self.style = ()

    def write(self, text):
        for match in self.TOKEN.finditer(text):
            token, (parameters, command) = match.group(), match.groups()
            if command == "m":
                self.set_style(parameters)
            elif command == "J" and parameters in ("", "0"):
                self.rows[self.row] = self.rows[self.row][: self.column]
                for row in range(self.row + 1, ROWS):
                    self.rows[row] = []
            elif token == "\r":
                self.column = 0
            elif token == "\n":
                self.new_line()
            elif token.isprintable():
                self.put(token)
            else:
                sys.exit(f"{token!r} is more than this knows of terminals")

    def set_style(self, parameters):
        for code in (int(code or 0) for code in parameters.split(";")):
            kinds = {0: (), 1: ("bold",), 2: ("dim",), 3: ("italic",)}
            if code == 0:
                self.style = ()
            elif code in kinds:
                self.style = (*self.style, *kinds[code])
            elif code in COLOURS:
                self.style = (*[it for it in self.style if it not in COLOURS], code)
            elif code != 39:
                sys.exit(f"style {code} is not known")

    def put(self, letter):
        wide = 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if self.column + wide > COLUMNS:
            self.column = 0
            self.new_line()
        row = self.rows[self.row]
        row.extend([(" ", ())] * (self.column - len(row)))
        row[self.column : self.column + wide] = [(letter, self.style)] + [("", ())] * (wide - 1)
        self.column += wide

    def new_line(self):
        if self.row < ROWS - 1:
            self.row += 1
        else:
            self.rows = [*self.rows[1:], []]

    def frame(self):
        """Return each row as segments of one style: start column, style, text, width."""
        return tuple(tuple(runs(row)) for row in self.rows)


def runs(row):
    start = 0
    for end in range(1, len(row) + 1):
        if end == len(row) or row[end][1] != row[start][1]:
            text = "".join(letter for letter, _ in row[start:end])
            if text.strip():
                yield start, row[start][1], text, end - start
            start = end


def frames(events):
    """Return all screens with their start times."""
    screen, shown = Screen(), []
    for index, (at, text) in enumerate(events):
        screen.write(text)
        following = events[index + 1][0] if index + 1 < len(events) else None
        if following is not None and following - at < FRAME and following - shown_at(shown) < FRAME:
            continue
        frame = screen.frame()
        if not shown or shown[-1][1] != frame:
            shown.append((at, frame))
    return shown


def shown_at(shown):
    return shown[-1][0] if shown else 0.0


def svg(events):
    shown = frames(events)
    rows = {}
    for _, frame in shown:
        for row in frame:
            rows.setdefault(row, f"r{len(rows)}")
    height, width = ROWS * HEIGHT, COLUMNS * WIDTH
    total = shown[-1][0] + LAST
    moves = [
        f"{at / total * 100:.3f}%{{transform:translateY({-index * height}px)}}"
        for index, (at, _) in enumerate(shown)
    ]
    moves[0] = "0%" + moves[0][moves[0].index("{") :]
    last = (len(shown) - 1) * height
    classes = "".join(f".c{code}{{fill:{colour}}}" for code, colour in COLOURS.items())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 24:.0f} {height + 24}"'
        f' width="{width + 24:.0f}" role="img">',
        "<title>butler-runner applies a module at a terminal</title>",
        f"<style>text{{font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;"
        f"fill:{FOREGROUND};white-space:pre}}.bold{{font-weight:bold}}.dim{{opacity:.6}}"
        f".italic{{font-style:italic}}{classes}#film{{transform:translateY({-last}px)}}"
        f"@media(prefers-reduced-motion:no-preference){{#film{{animation:film {total:.2f}s"
        f" step-end infinite}}}}@keyframes film{{{''.join(moves)}"
        f"100%{{transform:translateY({-last}px)}}}}</style>",
        "<defs>",
    ]
    for row, name in rows.items():
        if row:
            parts.append(f'<g id="{name}">{"".join(letters(*run) for run in row)}</g>')
    parts += [
        "</defs>",
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
        f'<svg x="12" y="12" width="{width:.0f}" height="{height}"><g id="film">',
    ]
    for index, (_, frame) in enumerate(shown):
        for line, row in enumerate(frame):
            if row:
                parts.append(f'<use href="#{rows[row]}" y="{index * height + line * HEIGHT}"/>')
    parts.append("</g></svg></svg>\n")
    return "\n".join(parts)


def letters(start, style, text, columns):
    names = [it if isinstance(it, str) else f"c{it}" for it in style]
    kind = f' class="{" ".join(names)}"' if names else ""
    return (
        f'<text x="{start * WIDTH:.1f}" y="14" textLength="{columns * WIDTH:.1f}"{kind}>'
        f"{escape(text)}</text>"
    )


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    events = record(str(pathlib.Path(sys.argv[1]).resolve()))
    (HERE / "apply.cast").write_text(cast(events), encoding="utf-8")
    (HERE / "apply.svg").write_text(svg(events), encoding="utf-8")


main()
