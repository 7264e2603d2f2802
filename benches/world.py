"""Where the benchmarks work: one directory that goes with them, and an environment made on purpose.

The environment is the same for runner and script, and holds nothing of the machine's CI system or
of whoever starts the benchmarks.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from benches import processes


class World:
    """A directory with a home and a place for temporary files, and what is run in it."""

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
            # Both would ask the vendor for news otherwise.
            "CHECKPOINT_DISABLE": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            # The state of these applies is wanted by nobody.
            "BUTLER_ALLOW_EPHEMERAL_STATE": "true",
            "BUTLER_CACHE_DIR": str(self.path("cache")),
        }

    def path(self, *names):
        """A path in the directory."""
        return self.directory.joinpath(*names)

    def script(self, name, text):
        """The command that runs a shell script, which works in a directory `clone` of its own."""
        path = self.path(f"{name}.sh")
        path.write_text(f"set -eu\ncd {self.temporary}\n{text}")
        return ["/bin/sh", path]

    def by_script(self, command):
        """Runs a script, then removes what it cloned, which nobody times."""
        ended = processes.run(command, self.environment, self.log)
        shutil.rmtree(self.temporary / "clone", ignore_errors=True)
        return ended

    @contextlib.contextmanager
    def fresh_home(self):
        """The variables of a home, and of a cache in it, that nothing was kept in before."""
        with tempfile.TemporaryDirectory(prefix="home-", dir=self.directory) as home:
            yield {"HOME": home, "BUTLER_CACHE_DIR": f"{home}/.butler-runner"}

    def by_runner(self, variables, *arguments):
        """Runs `execute`, with further `variables`."""
        return processes.run(self.execute(*arguments), self.environment | variables, self.log)

    def watch(self, variables, *arguments, children=False):
        """Runs `execute` and looks at it meanwhile."""
        environment = self.environment | variables
        return processes.watch(self.execute(*arguments), environment, self.log, children)

    def execute(self, *arguments):
        """The command that carries out a run."""
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
        """Runs git in a directory; returns what it says."""
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
