"""The machine of the benchmarks: its hardware, its software and its load."""

import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys

NEEDED = ("terraform", "git", "curl", "sha256sum", "unzip", "gpg", "awk")


class Machine:
    """A description for the results, with the load at the beginning and at the end."""

    def __init__(self, runner):
        self.started = datetime.datetime.now(datetime.timezone.utc)
        self.load_before = load()
        self.load_after = None
        self.processors = len(os.sched_getaffinity(0))
        self.model = _model()
        self.kernel = os.uname().release
        self.terraform = terraform_version()
        self.git = _said("git", "--version").split()[2]
        self.runner = _said(runner, "--version").splitlines()[0]

    def measured(self):
        """Records the load at the end."""
        self.load_after = load()

    def sentence(self):
        """The description, as text below a table."""
        return (
            f"Measured at {self.started:%Y-%m-%d %H:%M} UTC with `{self.runner}` on"
            f" {self.processors} processors ({self.model}), Linux {self.kernel},"
            f" terraform {self.terraform}, git {self.git};"
            f" load of the machine (1, 5, 15 minutes) before {self.load_before},"
            f" after {self.load_after}."
        )

    def document(self):
        """The results for the JSON file."""
        return vars(self) | {"started": self.started.isoformat(timespec="seconds")}


def forget(path):
    """Makes the kernel read a file again.

    The page cache keeps a file in the units in which it was written. Newer kernels make these large, so the
    memory of an executable that the linker just wrote would include unused pages.
    """
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def load():
    """The three averages of `/proc/loadavg`."""
    return " ".join(pathlib.Path("/proc/loadavg").read_text().split()[:3])


def terraform_version():
    """The version of the terraform on PATH."""
    return json.loads(_said("terraform", "version", "-json"))["terraform_version"]


def check_programs():
    """Exits if a program is missing that the benchmarks compare with."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        sys.exit(f"the benchmarks need {', '.join(missing)} on PATH: install what is missing")


def _model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return os.uname().machine


def _said(*command):
    environment = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    environment["CHECKPOINT_DISABLE"] = "1"
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout
