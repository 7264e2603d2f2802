"""A vendor's site on loopback with one signed release, and the number of its requests."""

import collections
import contextlib
import functools
import hashlib
import http.server
import subprocess
import threading
import zipfile


class Release:
    """A release of terraform, signed with a temporary key."""

    def __init__(self, world, name, version, executable):
        self.version = version
        self.site = world.path(name)
        keys = world.path(f"{name}-keys")
        keys.mkdir(mode=0o700)
        directory = self.site / "terraform" / version
        directory.mkdir(parents=True)
        self.file = f"terraform_{version}_linux_amd64.zip"
        archive = directory / self.file
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as packed:
            packed.write(executable, "terraform")
        self.size = archive.stat().st_size
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        self.sums = directory / f"terraform_{version}_SHA256SUMS"
        self.sums.write_text(f"{digest}  {archive.name}\n")
        self.key = keys / "key.asc"
        self._sign(keys)

    def _sign(self, keys):
        gpg = ["gpg", "--homedir", keys, "--batch", "--quiet", "--pinentry-mode", "loopback"]
        gpg += ["--passphrase", ""]
        signature = f"{self.sums}.72D7468F.sig"
        try:
            new_key = ["--quick-generate-key", "bench", "ed25519", "sign", "never"]
            subprocess.check_call([*gpg, *new_key])
            subprocess.check_call([*gpg, "--output", signature, "--detach-sign", self.sums])
            subprocess.check_call([*gpg, "--armor", "--output", self.key, "--export"])
        finally:
            # The agent that gpg started for the key.
            subprocess.call(["gpgconf", "--homedir", keys, "--kill", "all"])

    @contextlib.contextmanager
    def serving(self):
        """Serves it for the duration of the block; yields the URL and a counter of requests."""
        asked = collections.Counter()
        handler = functools.partial(Handler, asked, directory=self.site)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            server.server_close()

    def variables(self, url):
        """The variables that a runner needs to install it."""
        return {"BUTLER_MIRROR": url, "BUTLER_SIGNING_KEY": str(self.key)}


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files and counts them."""

    protocol_version = "HTTP/1.1"

    def __init__(self, asked, *arguments, **options):
        self.asked = asked
        super().__init__(*arguments, **options)

    def log_message(self, *_):
        """Does not log requests."""

    def do_GET(self):
        self.asked[self.path.rpartition("/")[2]] += 1
        super().do_GET()
