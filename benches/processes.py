"""Processes that are measured: their time, their processors' time and their memory.

No process outlives the benchmarks: each has its own process group, which is ended
when they are interrupted.
"""

import contextlib
import dataclasses
import os
import signal
import time

# The grace period of interrupted processes before SIGKILL: the runner stops its tool first.
GRACE_SECONDS = 15

# The sampling interval. The peak memory only grows, so only allocations in the last 2 ms
# can be missed.
LOOK_SECONDS = 0.002


class Failed(Exception):
    """A measured process failed, so its results are not valid."""


@dataclasses.dataclass(frozen=True)
class Ended:
    """The resources that a process used, including its descendants that were waited for."""

    seconds: float
    cpu_seconds: float


@dataclasses.dataclass
class Watched:
    """Samples of a process and its children."""

    peak_bytes: int = 0
    # Sampled; without the pages of the executable, which the kernel shares.
    private_bytes: int = 0
    # Of the largest child with the same executable.
    fetcher_peak_bytes: int = 0
    ended_at: float = 0.0
    # The times at which children ended, by their command lines; the last time of each is kept.
    children_ended_at: dict = dataclasses.field(default_factory=dict)


def spawn(command, environment, log=os.devnull):
    """Starts `command` with its output in the file `log`; returns its process id."""
    writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.fspath(log), writing, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    command = [os.fspath(word) for word in command]
    return os.posix_spawnp(command[0], command, environment, file_actions=files, setpgroup=0)


def run(command, environment, log=os.devnull):
    """Runs `command` to its end; raises [`Failed`] unless that is 0."""
    started = time.perf_counter()
    pid = spawn(command, environment, log)
    with ended_on_interrupt([pid]):
        _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - started
    check(command, status, log)
    return Ended(seconds, usage.ru_utime + usage.ru_stime)


def watch(command, environment, log=os.devnull, children=False):
    """Runs `command` and looks at its memory, and if asked to at its `children`, meanwhile.

    That costs time on the processors, so what is watched is not timed against anything.
    """
    pid = spawn(command, environment, log)
    seen, names = Watched(), {}
    with ended_on_interrupt([pid]):
        executable = os.readlink(f"/proc/{pid}/exe")
        while (status := _reaped(pid)) is None:
            seen.peak_bytes = max(seen.peak_bytes, peak_memory(pid))
            seen.private_bytes = max(seen.private_bytes, memory(pid, b"RssAnon:"))
            if children:
                _look_at_children(pid, executable, seen, names)
            time.sleep(LOOK_SECONDS)
        seen.ended_at = time.monotonic()
    check(command, status, log)
    return seen


def peak_memory(pid):
    """The peak resident memory of a process so far, in bytes; 0 if it has ended."""
    return memory(pid, b"VmHWM:")


def memory(pid, field):
    """A field of the status of a process, in bytes; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            for line in status:
                if line.startswith(field):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


def check(command, status, log):
    """Raises [`Failed`] with the end of the `log` if a process did not end with 0."""
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return
    with open(log, errors="replace") as file:
        said = "".join(file.readlines()[-20:])
    shown = " ".join(os.fspath(word) for word in command)
    raise Failed(f"`{shown}` ended with {code}:\n{said}")


def expect(holds, message):
    """Raises [`Failed`] with this message unless it `holds`."""
    if not holds:
        raise Failed(message)


@contextlib.contextmanager
def ended_on_interrupt(pids):
    """Ends the process groups of `pids` if the block is interrupted."""
    try:
        yield
    except BaseException:
        left = [pid for pid in pids if _signal(pid, signal.SIGTERM)]
        deadline = time.monotonic() + GRACE_SECONDS
        # A script ends immediately, and terraform remains in its group, because it stores its state first.
        while left and time.monotonic() < deadline:
            time.sleep(0.02)
            left = [pid for pid in left if _signal(pid, 0)]
        for pid in left:
            _signal(pid, signal.SIGKILL)
        raise


def _signal(pid, number):
    """Signals the group of a process that was started here. Returns whether the group still exists."""
    with contextlib.suppress(ChildProcessError):
        _reaped(pid)
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return False
    return True


def _reaped(pid):
    reaped, status = os.waitpid(pid, os.WNOHANG)
    return status if reaped else None


def _look_at_children(pid, executable, seen, names):
    now = time.monotonic()
    running = set()
    for child in _children(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            with open(f"/proc/{child}/stat", "rb") as stat:
                if stat.read().rpartition(b")")[2].split()[0] == b"Z":
                    continue
            if os.readlink(f"/proc/{child}/exe") == executable:
                seen.fetcher_peak_bytes = max(seen.fetcher_peak_bytes, peak_memory(child))
                continue
            running.add(child)
            # Read each time, because a new process has its parent's name until it executes its program.
            with open(f"/proc/{child}/cmdline", "rb") as line:
                name = line.read().rstrip(b"\0").replace(b"\0", b" ").decode()
            names[child] = name or names.get(child, "")
    for child in names.keys() - running:
        seen.children_ended_at[names.pop(child)] = now


def _children(pid):
    children = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                with open(f"/proc/{pid}/task/{thread}/children", "rb") as listed:
                    children += map(int, listed.read().split())
    return children
