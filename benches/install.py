#!/usr/bin/env python3
"""Installs a release by the runner, beside what a user would write instead: curl, sha256sum, unzip.

The site is on loopback and serves the machine's own Terraform as a release, signed with a key made
for the occasion. Both take turns. The runner also checks the signature and syncs what it writes; the
script does neither. Then the time of a `which` for a version that is installed.
Usage: benches/install.py RUNNER [ROUNDS]
"""

import functools
import hashlib
import http.server
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile


def release(site, keys):
    """Lays out a release of the machine's Terraform as its vendor does; returns version and size."""
    terraform = shutil.which("terraform") or sys.exit("terraform has to be on PATH")
    answer = subprocess.check_output([terraform, "version", "-json"])
    version = json.loads(answer)["terraform_version"]
    directory = site / "terraform" / version
    directory.mkdir(parents=True)
    archive = directory / f"terraform_{version}_linux_amd64.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as packed:
        packed.write(terraform, "terraform")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    sums = directory / f"terraform_{version}_SHA256SUMS"
    sums.write_text(f"{digest}  {archive.name}\n")
    gpg = ["gpg", "--homedir", keys, "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
    subprocess.check_call(gpg + ["--quick-generate-key", "bench", "ed25519", "sign", "never"])
    subprocess.check_call(gpg + ["--output", f"{sums}.72D7468F.sig", "--detach-sign", sums])
    subprocess.check_call(gpg + ["--armor", "--output", keys / "key.asc", "--export"])
    return version, archive.stat().st_size


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


# What is started counts the memory of who started it: so that is an interpreter with nothing in it.
STARTER = """
import os, sys, time
started = time.perf_counter()
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(process, 0)
print(status, time.perf_counter() - started, usage.ru_maxrss / 1024, file=sys.stderr)
"""


def measured(command, environment):
    """Runs `command`; returns seconds, and the largest memory of one of its processes in MB."""
    starter = [sys.executable, "-I", "-S", "-c", STARTER]
    ended = subprocess.run(starter + command, env=environment, capture_output=True, text=True)
    status, seconds, megabytes = ended.stderr.splitlines()[-1].split()
    if int(status):
        sys.exit(f"{command} failed: {ended.stderr}")
    return float(seconds), float(megabytes)


def shown(name, times, memory):
    ms = sorted(1000 * it for it in times)
    print(f"  {name:8} {statistics.median(ms):7.1f} ms  {ms[0]:.1f}-{ms[-1]:.1f}   {max(memory):6.1f} MB")
    return statistics.median(ms)


def main():
    runner = str(pathlib.Path(sys.argv[1]).resolve())
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        keys = work / "keys"
        keys.mkdir(mode=0o700)
        version, size = release(work / "site", keys)
        subprocess.call(["gpgconf", "--homedir", keys, "--kill", "all"])
        handler = functools.partial(Quiet, directory=work / "site")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        site = f"http://127.0.0.1:{server.server_port}"
        cache = work / "cache"
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(work), "TMPDIR": str(work), "BUTLER_LOG": "error",
            "BUTLER_CACHE_DIR": str(cache), "BUTLER_MIRROR": site, "BUTLER_SIGNING_KEY": str(keys / "key.asc"),
        }
        base = f"{site}/terraform/{version}/terraform_{version}"
        script = f"""
            set -e; mkdir -p {work}/script; cd {work}/script
            curl -fsSO {base}_linux_amd64.zip; curl -fsSO {base}_SHA256SUMS
            sha256sum --quiet -c terraform_{version}_SHA256SUMS; unzip -qo *.zip
        """
        install = [runner, "tool", "install", version]
        times = {"script": [], "runner": [], "which": []}
        memory = {name: [] for name in times}
        for _ in range(rounds):
            for name, command in (("script", ["/bin/bash", "-c", script]), ("runner", install)):
                shutil.rmtree(cache, ignore_errors=True)
                shutil.rmtree(work / "script", ignore_errors=True)
                seconds, megabytes = measured(command, environment)
                times[name].append(seconds)
                memory[name].append(megabytes)
        for _ in range(10 * rounds):
            seconds, megabytes = measured([runner, "tool", "which", version], environment)
            times["which"].append(seconds)
            memory["which"].append(megabytes)
        print(f"install of an archive of {size / 1e6:.0f} MB, n = {rounds} pairs (median, min-max, largest process)")
        ratio = shown("script", times["script"], memory["script"])
        ratio = shown("runner", times["runner"], memory["runner"]) / ratio
        print(f"  ratio    {ratio:7.2f}")
        print(f"`tool which` of an installed version, n = {10 * rounds}")
        shown("which", times["which"], memory["which"])
        server.shutdown()


if __name__ == "__main__":
    main()
