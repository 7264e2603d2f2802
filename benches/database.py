"""A PostgreSQL server that is measured: created by initdb, and ended with the benchmark."""

import contextlib
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import tempfile

from benches.processes import expect

# Debian has the programs there.
PLACES = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)

PASSWORD = "bench"


class Database:
    """A running server with the settings of the packages, on a free port of this machine."""

    def __init__(self, directory, user):
        self.directory, self.user = directory, user
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    @property
    def address(self):
        """The value of `--store`."""
        return f"postgres://postgres:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def query(self, statement):
        """The first column of the first row."""
        return self.run("psql", "-Atq", "-c", statement, self.address).strip()

    def cpu_seconds(self):
        """The time on processors so far of all its processes, also of those that have ended."""
        postmaster = int((self.directory / "data/postmaster.pid").read_text().split()[0])
        seconds = 0
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(stat.parent.name) == postmaster:
                    seconds += sum(map(int, fields[11:15]))
                elif int(fields[1]) == postmaster:
                    seconds += sum(map(int, fields[11:13]))
        return seconds / os.sysconf("SC_CLK_TCK")

    def transactions(self):
        """How many transactions were made, also by the server itself."""
        return int(self.query("SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'"))

    def size(self):
        """The size of its tables and indices, in bytes."""
        return int(self.query("SELECT pg_database_size('postgres')"))

    def run(self, program, *arguments):
        """Executes one of its programs; returns what it prints."""
        found = shutil.which(program) or next(
            (place / program for place in PLACES if (place / program).exists()), None
        )
        expect(found, f"{program} of PostgreSQL is not installed")
        # It refuses to run as root.
        user = {} if self.user is None else {"user": self.user.pw_uid, "group": self.user.pw_gid}
        done = subprocess.run(
            [found, *arguments], cwd=self.directory, stdin=subprocess.DEVNULL,
            # The server would keep a pipe open.
            stdout=subprocess.DEVNULL if program == "pg_ctl" else subprocess.PIPE,
            stderr=subprocess.DEVNULL if program == "pg_ctl" else None, text=True, **user,
        )
        expect(done.returncode == 0, f"{program} has failed")
        return done.stdout


@contextlib.contextmanager
def running():
    """A server for the duration of the block."""
    user = pwd.getpwnam("nobody") if os.getuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="bench-postgres-") as name:
        directory = pathlib.Path(name)
        (directory / "password").write_text(PASSWORD)
        if user is not None:
            for path in (directory, directory / "password"):
                os.chown(path, user.pw_uid, user.pw_gid)
        database = Database(directory, user)
        database.run(
            "initdb", "--username=postgres", "--auth=scram-sha-256", "--pwfile=password", "--pgdata=data"
        )
        options = f"-p {database.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        database.run("pg_ctl", "start", "-w", "-D", "data", "-l", "log", "-o", options)
        try:
            yield database
        finally:
            database.run("pg_ctl", "stop", "-w", "-D", "data", "-m", "fast")
