"""zookeeper-shell: runs ZooKeeper's own shell against an address.

The shell is a Java program that comes with ZooKeeper: this finds it as zookeeper-server-start finds
the server, and passes the arguments on.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final

import ottla
from ottla.cli.kafka.tool import INTERRUPTED, ToolError, read_properties

NAME: Final = "zookeeper-shell"
TLS_FILE: Final = "-zk-tls-config-file"
USAGE: Final = f"""\
USAGE: {NAME} zookeeper_host:port[/path] [{TLS_FILE} file] [args...]

examples:
  {NAME} localhost:2181                        a prompt
  {NAME} localhost:2181/ottla ls /brokers/ids
  {NAME} zk.example:2182 {TLS_FILE} tls.properties get /controller"""
SHELL_CLASS: Final = "org.apache.zookeeper.ZooKeeperMain"
LOGGING: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"

# Kafka's names in the file, and the names for ZooKeeper's client.
TLS_NAMES: Final[Mapping[str, str]] = {
    "zookeeper.ssl.client.enable": "zookeeper.client.secure",
    "zookeeper.clientCnxnSocket": "zookeeper.clientCnxnSocket",
    "zookeeper.ssl.keystore.location": "zookeeper.ssl.keyStore.location",
    "zookeeper.ssl.keystore.password": "zookeeper.ssl.keyStore.password",
    "zookeeper.ssl.keystore.type": "zookeeper.ssl.keyStore.type",
    "zookeeper.ssl.truststore.location": "zookeeper.ssl.trustStore.location",
    "zookeeper.ssl.truststore.password": "zookeeper.ssl.trustStore.password",
    "zookeeper.ssl.truststore.type": "zookeeper.ssl.trustStore.type",
    "zookeeper.ssl.protocol": "zookeeper.ssl.protocol",
    "zookeeper.ssl.enabled.protocols": "zookeeper.ssl.enabledProtocols",
    "zookeeper.ssl.cipher.suites": "zookeeper.ssl.ciphersuites",
    "zookeeper.ssl.crl.enable": "zookeeper.ssl.crl",
    "zookeeper.ssl.ocsp.enable": "zookeeper.ssl.ocsp",
}
HOSTNAMES: Final = "zookeeper.ssl.endpoint.identification.algorithm"


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["--version"]:
        print(ottla.__version__)
        return 0
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if words else 1
    server, *rest = words
    try:
        settings: dict[str, str] = {}
        if rest[:1] == [TLS_FILE]:
            if len(rest) < 2:
                raise ToolError(f"{TLS_FILE} needs the name of a file")
            settings, rest = tls_settings(read_properties(rest[1])), rest[2:]
        return run_shell(["-server", server, *rest], settings)
    except ToolError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def tls_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """The Java system properties for Kafka's TLS file."""
    unknown = [name for name in properties if name not in TLS_NAMES and name != HOSTNAMES]
    if unknown:
        raise ToolError(f"{TLS_FILE} knows no {', '.join(unknown)}")
    found = {TLS_NAMES[name]: value for name, value in properties.items() if name in TLS_NAMES}
    found.setdefault("zookeeper.client.secure", "true")
    found.setdefault("zookeeper.clientCnxnSocket", NETTY)
    checks = properties.get(HOSTNAMES, "HTTPS").upper() == "HTTPS"
    return {**found, "zookeeper.ssl.hostnameVerification": "true" if checks else "false"}


def run_shell(words: Sequence[str], settings: Mapping[str, str]) -> int:
    """Passes passwords in a private file, because everybody can see a command line."""
    from ottla.testing.zookeeper import ZooKeeperNotFound, java_command

    with tempfile.NamedTemporaryFile("w", prefix="zookeeper-shell-") as options:
        for name, value in settings.items():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            options.write(f'"-D{name}={escaped}"\n')
        options.flush()
        try:
            *java, _ = java_command([LOGGING, f"@{options.name}"])
        except ZooKeeperNotFound as error:
            raise ToolError(str(error)) from None
        sys.stdout.flush()
        command = [*java, SHELL_CLASS, *words]
        return subprocess.run(command, env={**os.environ}).returncode


if __name__ == "__main__":
    sys.exit(main())
