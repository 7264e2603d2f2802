"""Serves git repositories over http: `git http-backend` behind a small server on loopback."""

import contextlib
import http.server
import os
import subprocess
import threading
import time

BLOCK = 256 * 1024

# When each request for a listing or a pack was answered.
ASKED = []


@contextlib.contextmanager
def serving(root):
    """Serves the repositories below `root` for the duration of the block; yields the URL."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.root = root
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    """Passes each request to `git http-backend`, and streams its response."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *_):
        """Does not log requests."""

    def do_GET(self):
        self._answer(b"")

    def do_POST(self):
        if "chunked" in self.headers.get("transfer-encoding", ""):
            self._answer(self._chunks())
        else:
            self._answer(self.rfile.read(int(self.headers["content-length"])))

    def _chunks(self):
        body = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, body):
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
            "HTTP_GIT_PROTOCOL": self.headers.get("git-protocol", ""),
        }
        with subprocess.Popen(
            ["git", "http-backend"], env=environment, bufsize=BLOCK,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ) as backend:
            # The backend reads the whole request before it responds.
            with contextlib.suppress(BrokenPipeError):
                backend.stdin.write(body)
            backend.stdin.close()
            try:
                self._pass_on(backend.stdout)
            except ConnectionError:
                backend.kill()
                self.close_connection = True
        ASKED.append(time.time())

    def _pass_on(self, output):
        status, headers = 200, []
        while line := output.readline().strip():
            name, _, value = line.decode().partition(": ")
            if name.lower() == "status":
                status = int(value.split()[0])
            else:
                headers.append((name, value))
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        while block := output.read1(BLOCK):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(block), block))
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
