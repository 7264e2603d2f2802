"""The machine that measures: what it is, what is installed on it, and how busy it is."""

import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys

NEEDED = ("terraform", "git", "curl", "sha256sum", "unzip", "gpg", "awk")


class Machine:
    """What stands with the figures. The load is that of the beginning and that of the end."""

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
        """Notes the load at the end."""
        self.load_after = load()

    def sentence(self):
        """All of it, to stand below a table."""
        return (
            f"Measured at {self.started:%Y-%m-%d %H:%M} UTC with `{self.runner}` on"
            f" {self.processors} processors ({self.model}), Linux {self.kernel},"
            f" terraform {self.terraform}, git {self.git};"
            f" load of the machine (1, 5, 15 minutes) before {self.load_before},"
            f" after {self.load_after}."
        )

    def document(self):
        """The same for the JSON."""
        return vars(self) | {"started": self.started.isoformat(timespec="seconds")}


def forget(path):
    """Has the kernel read a file anew.

    It maps what it keeps of a file in the pieces in which that was written, which newer kernels
    make large: an executable right from the linker would count with pages that nobody touches.
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
    """Ends the benchmarks where a program is missing that they measure against."""
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
