"""The surroundings of the benchmarks: one temporary directory, and a fixed environment.

The environment is the same for runner and script, and does not contain variables of the CI system or of
the user.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from benches import processes


class World:
    """A directory with a home and temporary files, and the commands that run in it."""

    def __init__(self, directory, runner):
        self.directory = pathlib.Path(directory)
        self.runner = runner
        self.temporary = self.path("tmp")
        self.log = self.path("log")
        self.temporary.mkdir(parents=True)
        self.path("home").mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path("home")),
            "TMPDIR": str(self.temporary),
            # Otherwise both would check for updates at the vendor.
            "CHECKPOINT_DISABLE": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            # The states of these applies are not needed.
            "BUTLER_ALLOW_EPHEMERAL_STATE": "true",
            "BUTLER_CACHE_DIR": str(self.path("cache")),
        }

    def path(self, *names):
        """A path in the directory."""
        return self.directory.joinpath(*names)

    def script(self, name, text):
        """The command that runs a shell script in its own directory `clone`."""
        path = self.path(f"{name}.sh")
        path.write_text(f"set -eu\ncd {self.temporary}\n{text}")
        return ["/bin/sh", path]

    def by_script(self, command):
        """Runs a script, then removes its clone, which is not timed."""
        ended = processes.run(command, self.environment, self.log)
        shutil.rmtree(self.temporary / "clone", ignore_errors=True)
        return ended

    @contextlib.contextmanager
    def fresh_home(self):
        """The variables of a new home with an empty cache."""
        with tempfile.TemporaryDirectory(prefix="home-", dir=self.directory) as home:
            yield {"HOME": home, "BUTLER_CACHE_DIR": f"{home}/.butler-runner"}

    def by_runner(self, variables, *arguments):
        """Runs `execute`, with further `variables`."""
        return processes.run(self.execute(*arguments), self.environment | variables, self.log)

    def watch(self, variables, *arguments, children=False):
        """Runs `execute` and samples it."""
        environment = self.environment | variables
        return processes.watch(self.execute(*arguments), environment, self.log, children)

    def execute(self, *arguments):
        """The command that executes a run."""
        return [self.runner, "execute", *arguments]

    def repository(self, name, files):
        """A git repository with `files` on `main`; returns its URL."""
        directory = self.path(name)
        for file, text in files.items():
            path = directory / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git(directory, "init", "--quiet", "--initial-branch", "main")
        self.git(directory, "add", "--all")
        self.git(directory, "commit", "--quiet", "--message", "module")
        return f"file://{directory}"

    def git(self, directory, *arguments, **options):
        """Runs git in a directory; returns its output."""
        who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        return subprocess.run(
            ["git", "-C", directory, *who, *arguments],
            env=self.environment, check=True, stdout=subprocess.PIPE, **options
        ).stdout

    def stand_in(self, name, script):
        """A directory with a `terraform` that is this shell script; returns the PATH with it."""
        directory = self.path(name)
        directory.mkdir()
        program = directory / "terraform"
        program.write_text(script)
        program.chmod(0o755)
        return f"{directory}:/usr/local/bin:/usr/bin:/bin"
