"""TLS in front of a port on loopback, with a temporary certificate."""

import contextlib
import socket
import ssl
import subprocess
import threading

BLOCK = 256 * 1024


@contextlib.contextmanager
def before(world, port):
    """Serves `port` with TLS for the duration of the block; yields the URL and the certificate."""
    certificate, key = world.path("certificate.pem"), world.path("key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE",
         "-keyout", key, "-out", certificate],
        check=True, stderr=subprocess.DEVNULL,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=_accept, args=(listener, context, port), daemon=True)
        accepting.start()
        try:
            yield f"https://127.0.0.1:{listener.getsockname()[1]}", certificate
        finally:
            # Ends the blocking `accept`.
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()


def _accept(listener, context, port):
    with contextlib.suppress(OSError):
        while True:
            plain, _ = listener.accept()
            threading.Thread(target=_serve, args=(plain, context, port), daemon=True).start()


def _serve(plain, context, port):
    with contextlib.suppress(OSError), plain, context.wrap_socket(plain, server_side=True) as near:
        with socket.create_connection(("127.0.0.1", port)) as far:
            threading.Thread(target=_copy, args=(far, near), daemon=True).start()
            _copy(near, far)


def _copy(source, target):
    with contextlib.suppress(OSError):
        while block := source.recv(BLOCK):
            target.sendall(block)
        target.shutdown(socket.SHUT_WR)
