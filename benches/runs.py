"""Plans and applies with real Terraform in comparison with scripts: times, delivered lines, memory."""

from benches import modules, table
from benches.processes import expect
from benches.table import Row

LINES = 200_000

# The delay of a response from a remote registry.
DELAY_SECONDS = 0.02

MEGABYTE = 1_000_000


def pairs(count, by_runner, by_script, warm_up=True):
    """Runs both alternately, each first in half of the pairs. The `warm_up` is not counted."""
    if warm_up:
        by_script()
        by_runner()
    taken = []
    for index in range(count):
        if index % 2:
            runner = by_runner()
            script = by_script()
        else:
            script = by_script()
            runner = by_runner()
        taken.append((runner, script))
    return taken


class Module:
    """A module in a repository, which is run with a registry or by a script."""

    def __init__(self, world, registry, name, files, operation):
        self.world, self.registry, self.operation = world, registry, operation
        self.url = world.repository(name, files)
        text = modules.APPLY if operation == "apply" else modules.PLAN
        self.command = world.script(name, text.format(url=self.url))
        self.accounts = []

    def by_runner(self):
        """One timed run."""
        variables = self._add()
        ended = self.world.by_runner(variables)
        self._keep(variables)
        return ended

    def by_runner_in_a_fresh_home(self):
        """One timed run without caches of earlier runs."""
        variables = self._add()
        with self.world.fresh_home() as fresh:
            ended = self.world.by_runner(variables | fresh)
        self._keep(variables)
        return ended

    def by_script(self):
        """One timed script."""
        return self.world.by_script(self.command)

    def watched(self, delay=0.0, children=False):
        """One run with memory samples."""
        variables = self._add(delay)
        seen = self.world.watch(variables, children=children)
        self._keep(variables)
        return seen

    def peaks(self, count, name, must, aim):
        """Rows with the private and the resident memory of this many runs."""
        seen = [self.watched() for _ in range(count)]
        private = [it.private_bytes / MEGABYTE for it in seen]
        yield Row(f"private memory, {name}", "MB", private, must, aim)
        yield Row(f"memory, {name}", "MB", [it.peak_bytes / MEGABYTE for it in seen], 24, 12)

    def _add(self, delay=0.0):
        return self.registry.add_run(self.operation, self.url, delay=delay)

    def _keep(self, variables):
        self.accounts.append(settled(self.registry, variables))


def tiny(world, registry, count):
    """A module with three resources, planned."""
    module = Module(world, registry, "tiny", modules.resources(3), "plan")
    yield from planned(module, count, "tiny module", (1.00, 0.90), (1.10, 1.00), (4, 3))
    taken = pairs(count, module.by_runner_in_a_fresh_home, module.by_script)
    yield from table.ratios("tiny module, plan, fresh HOME", taken, (1.10, 1.00), (1.35, 1.25))


def five_hundred(world, registry, count):
    """A module with 500 resources, planned."""
    module = Module(world, registry, "resources", modules.resources(500), "plan")
    return planned(module, count, "500 resources", (1.00, 0.95), (1.03, 1.00), (7.5, 6))


def planned(module, count, name, wall, cpu, memory):
    """The rows of a planned module, with limits and targets."""
    taken = pairs(count, module.by_runner, module.by_script)
    yield from table.ratios(f"{name}, plan", taken, wall, cpu)
    yield from module.peaks(max(2, count // 3), name, *memory)
    yield Row(f"requests, {name}", "count", totals(module.accounts))


def many_lines(world, registry, count):
    """An apply that prints 200,000 lines: its time, its memory, and the lines at a slow registry."""
    module = Module(world, registry, "lines", modules.lines(LINES), "apply")
    # Measurements of several seconds do not need a warm-up.
    taken = pairs(count, module.by_runner, module.by_script, warm_up=False)
    yield from table.ratios(f"apply, {LINES:,} lines", taken, (1.05, 1.02), (1.15, 1.08))
    watches = max(1, count // 2)
    yield from module.peaks(watches, f"{LINES:,} lines", 7.5, 6)
    module.accounts.clear()
    seen = [module.watched(DELAY_SECONDS, children=True) for _ in range(watches)]
    name = f"{LINES:,} lines, {DELAY_SECONDS * 1000:.0f} ms a request"
    wrong = [wrong_lines(account, LINES) for account in module.accounts]
    yield Row(f"{name}: lines lost, doubled or out of order", "count", wrong, 0, 0)
    requests = [account["requests"].get("POST logs", 0) for account in module.accounts]
    yield Row(f"{name}: log requests", "count", requests, 100, 60)
    yield Row(f"{name}: end of apply to end of runner", "s", after(seen, " apply "), 1, 0.3)
    yield Row(f"{name}: end of the last terraform to end of runner", "s", after(seen, ""))
    yield Row(f"{name}: memory", "MB", [it.peak_bytes / MEGABYTE for it in seen])


def settled(registry, variables):
    """The result of a run, which must have succeeded."""
    account = registry.account(variables)
    expect(account["statuses"] == ["running", "succeeded"], f"statuses: {account['statuses']}")
    expect(account["sequences_in_order"], "the sequences of log lines are not 1, 2, 3, ...")
    return account


def after(seen, wanted):
    """The time of each runner after its last process with `wanted` in its command line."""
    return [
        it.ended_at - max(at for line, at in it.children_ended_at.items() if wanted in line)
        for it in seen
    ]


def totals(accounts):
    """All requests of each run."""
    return [sum(account["requests"].values()) for account in accounts]


def wrong_lines(account, wanted):
    """How many of the module's lines are missing or too many; all, if their order is wrong."""
    if not account["numbers_in_order"]:
        return wanted
    return abs(wanted - account["numbered"])


def large_plan(world, registry, count):
    """The memory with a plan whose JSON has 200 MB, which a stand-in for terraform writes."""
    plan = world.path("large-plan.json")
    modules.large_plan(plan, 200 * MEGABYTE)
    path = world.stand_in("large", modules.stand_in(f"cat {plan}"))
    url = world.repository("large-module", modules.resources(1))
    values = []
    for _ in range(count):
        variables = registry.add_run("plan", url)
        seen = world.watch(variables | {"PATH": path})
        settled(registry, variables)
        values.append(seen.peak_bytes / MEGABYTE)
    plan.unlink()
    yield Row("memory, plan whose JSON has 200 MB", "MB", values, 32, 24)
