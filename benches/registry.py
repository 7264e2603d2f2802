"""The client for the registry of the benchmarks: adds runs and reads their results."""

import http.client
import json
import pathlib
import subprocess
import sys
import uuid

TOKEN = "brce_0123456789abcdef"

# The directory of the package, so that its modules are found from any working directory.
ROOT = pathlib.Path(__file__).resolve().parent.parent


class Registry:
    """A registry that runs for the duration of the `with` block."""

    def __enter__(self):
        command = [sys.executable, "-B", "-m", "benches.registry_server"]
        # In its own process group, because the benchmarks handle Ctrl-C and end the registry.
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
        )
        self.port = int(self.process.stdout.readline())
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def add_run(self, operation, repository, reference="main", delay=0.0, **further):
        """Adds a run; returns the variables that a runner needs to execute it."""
        run_id = str(uuid.uuid4())
        callback = f"/v1/ci/module-runs/{run_id}"
        config = {
            "runId": run_id,
            "operation": operation,
            "source": {"type": "git", "gitRepo": repository, "gitRef": reference},
            "variables": {},
            "callbacks": {
                f"{name}Url": f"{callback}/{name}" for name in ("status", "logs", "plan", "outputs")
            },
        }
        run = {"config": config | further, "token": f"Bearer {TOKEN}", "delay": delay}
        self._ask("POST", run_id, run)
        return {
            "BUTLER_ENDPOINT": f"http://127.0.0.1:{self.port}/api/registry",
            "BUTLER_RUN_ID": run_id,
            "BUTLER_TOKEN": TOKEN,
        }

    def account(self, variables):
        """The data that arrived for the run of these `variables`; the registry then deletes the run."""
        return self._ask("GET", variables["BUTLER_RUN_ID"])

    def usage(self):
        """Its processor time, its number of requests, and its memory."""
        return self._ask("GET", "usage")

    def _ask(self, method, name, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request(method, f"/control/{name}", None if body is None else json.dumps(body))
        with connection.getresponse() as answer:
            told = json.load(answer)
        connection.close()
        return told
