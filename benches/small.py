"""Small costs of each run: the start, the executable, and an installed tool."""

import pathlib
import shutil

from benches import machine, processes, table
from benches.release_site import Release
from benches.runs import MEGABYTE, pairs
from benches.table import Row

INSTALL = """\
mkdir clone
cd clone
curl -fsSO {base}_linux_amd64.zip
curl -fsSO {base}_SHA256SUMS
sha256sum --quiet -c terraform_{version}_SHA256SUMS
unzip -qo terraform_{version}_linux_amd64.zip
"""


def start(world, _registry, count):
    """The time from spawn to exit, compared with a program that does nothing."""
    runner = [world.runner, "--version"]
    values = differences(world, 40 * count, runner, ["/bin/true"], world.environment)
    yield Row("start-up over /bin/true", "ms", values, 2, 1)


def size(world, _registry, _count):
    """The executable, with all features."""
    values = [pathlib.Path(world.runner).stat().st_size / MEGABYTE]
    yield Row("size of the executable", "MB", values, 32, 26)


def install(world, _registry, count):
    """A release of the machine's own terraform, installed; and then found in the cache."""
    version = machine.terraform_version()
    release = Release(world, "site", version, shutil.which("terraform"))
    with release.serving() as (url, _):
        variables = release.variables(url)
        base = f"{url}/terraform/{version}/terraform_{version}"
        command = world.script("install", INSTALL.format(base=base, version=version))
        environment = world.environment | variables
        tool = [world.runner, "tool", "install", version]

        def by_runner():
            shutil.rmtree(world.path("cache"), ignore_errors=True)
            return processes.run(tool, environment, world.log)

        taken = pairs(count, by_runner, lambda: world.by_script(command))
        megabytes = release.size / MEGABYTE
        name = f"install of a signed archive of {megabytes:.0f} MB"
        yield from table.ratios(name, taken, wall=(1.00, 0.80))
    # With an empty PATH, so that the tool of the cache is used.
    empty = world.path("empty")
    empty.mkdir()
    environment |= {"PATH": str(empty)}
    which = [world.runner, "tool", "which", version]
    values = differences(world, 20 * count, which, [world.runner, "--version"], environment)
    yield Row("cached tool made ready, over start-up", "ms", values, 5, 1)


def differences(world, count, command, other, environment):
    """The differences of two commands in ms, for each pair."""
    def timed(words):
        return lambda: processes.run(words, environment, world.log)

    taken = pairs(count, timed(command), timed(other))
    return [1000 * (own.seconds - others.seconds) for own, others in taken]
