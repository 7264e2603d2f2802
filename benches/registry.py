"""The benchmarks' hold of the registry: adds runs to it and reads their accounts."""

import http.client
import json
import pathlib
import subprocess
import sys
import uuid

TOKEN = "brce_0123456789abcdef"

# Whose modules are found from here, whatever the directory is.
ROOT = pathlib.Path(__file__).resolve().parent.parent


class Registry:
    """A registry that runs as long as the `with` block does."""

    def __enter__(self):
        command = [sys.executable, "-B", "-m", "benches.registry_server"]
        # A group of its own: Ctrl-C is for the benchmarks, which then end it.
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
        """Adds a run; returns the variables that a runner needs to carry it out."""
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
        """What has arrived for the run of these `variables`, which the registry then forgets."""
        return self._ask("GET", variables["BUTLER_RUN_ID"])

    def usage(self):
        """The time on processors that it has had, the requests it has answered, and its memory."""
        return self._ask("GET", "usage")

    def _ask(self, method, name, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request(method, f"/control/{name}", None if body is None else json.dumps(body))
        with connection.getresponse() as answer:
            told = json.load(answer)
        connection.close()
        return told
