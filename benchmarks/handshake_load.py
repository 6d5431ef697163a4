"""Connections that each do a full TLS handshake, as many as the broker takes.

    python -m benchmarks.handshake_load --port 9093 --seconds 5 [--clients 4]

Each client connects, shakes hands, asks for ApiVersions, and closes. Nothing is resumed: no session
is kept. The certificate's chain is not checked here; that would be the client's time only.
"""

from __future__ import annotations

import argparse
import json
import socket
import ssl
import struct
import threading
import time

from benchmarks.brokers import HOST

CLIENTS = 4
TIMEOUT_S = 30.0
# ApiVersions v0: key 18, version 0, correlation id 1, no client id.
REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def context() -> ssl.SSLContext:
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.minimum_version = ssl.TLSVersion.TLSv1_3
    found.check_hostname = False
    found.verify_mode = ssl.CERT_NONE
    return found


def connect_once(port: int, tls: ssl.SSLContext) -> None:
    with (
        socket.create_connection((HOST, port), timeout=TIMEOUT_S) as plain,
        tls.wrap_socket(plain) as secured,
    ):
        assert not secured.session_reused
        secured.sendall(REQUEST)
        if not secured.recv(4):
            raise ConnectionError("the broker has closed the connection")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.handshake_load")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    given = parser.parse_args()
    counts = [0] * given.clients
    begun = time.perf_counter()
    end = begun + given.seconds

    def work(number: int) -> None:
        tls = context()
        while True:  # at least once, however slow the machine is
            connect_once(given.port, tls)
            counts[number] += 1
            if time.perf_counter() >= end:
                return

    threads = [threading.Thread(target=work, args=(number,)) for number in range(given.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"connections": sum(counts), "elapsed_s": time.perf_counter() - begun}))


if __name__ == "__main__":
    main()
