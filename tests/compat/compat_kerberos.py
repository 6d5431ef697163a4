"""A Kerberos realm for tests: MIT's KDC from Debian on a free port, in a folder.

`OTTLA.TEST` is the brokers' realm. `ELSEWHERE.TEST` is another one that it trusts, so its users can
get tickets for our services.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

from compat_brokers import free_port

REALM = "OTTLA.TEST"
ELSEWHERE = "ELSEWHERE.TEST"
START_S_MAX = 60.0
SERVICE = "kafka/localhost"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"

KRB5_CONF = """
[libdefaults]
 default_realm = {realm}
 dns_lookup_realm = false
 dns_lookup_kdc = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
 clockskew = 300
 default_ccache_name = FILE:{folder}/tickets
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
 {elsewhere} = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 localhost = {realm}
"""

KDC_CONF = """
[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/{realm}.db
  key_stash_file = {folder}/{realm}.stash
  max_life = 1h
 }}
 {elsewhere} = {{
  database_name = {folder}/{elsewhere}.db
  key_stash_file = {folder}/{elsewhere}.stash
 }}
[logging]
 kdc = FILE:{folder}/kdc.log
"""


class KerberosRealm:
    """`environment` is for every process that uses the realm."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("krb5kdc", path="/usr/sbin:/usr/bin:/sbin")
        assert program is not None, "run tools/setup_test_clients.sh first"
        self.folder = folder
        port = free_port()
        names = {"realm": REALM, "elsewhere": ELSEWHERE, "folder": folder, "port": port}
        self.krb5_conf = folder / "krb5.conf"
        self.krb5_conf.write_text(KRB5_CONF.format(**names))
        (folder / "kdc.conf").write_text(KDC_CONF.format(**names))
        self.environment = {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5RCACHEDIR": str(folder),
            "JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={self.krb5_conf}",
        }
        for realm in (REALM, ELSEWHERE):
            self._run("kdb5_util", "-r", realm, "create", "-s", "-P", "master-secret")
            trust = f"krbtgt/{REALM}@{ELSEWHERE}"
            self._run("kadmin.local", "-r", realm, "addprinc", "-pw", "between-realms", trust)
        command = [program, "-n", "-r", REALM, "-r", ELSEWHERE, "-P", str(folder / "kdc.pid")]
        self._process = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait(port)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(START_S_MAX)

    def keytab(self, principal: str, *options: str) -> Path:
        """A new principal with a key of its own, in a file; `-maxlife 1min`, for example."""
        realm = principal.partition("@")[2] or REALM
        file = self.folder / f"{principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-r", realm, "addprinc", "-randkey", *options, principal)
        self.new_key(principal, file)
        return file

    def new_key(self, principal: str, keytab: Path) -> None:
        """Adds a new key, which encrypts later tickets; the file keeps its old keys."""
        realm = principal.partition("@")[2] or REALM
        self._run("kadmin.local", "-r", realm, "ktadd", "-k", str(keytab), principal)

    def log(self) -> str:
        return (self.folder / "kdc.log").read_text()

    def _run(self, *command: str) -> None:
        path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **self.environment}
        done = subprocess.run(command, env=path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + START_S_MAX
        while True:
            assert self._process.poll() is None, self.log()
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.02)


def keytab_module(keytab: Path, principal: str) -> str:
    return f'{MODULE} useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}";'


def client_settings(keytab: Path, principal: str) -> dict[str, str]:
    """As a client's properties file would have them."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": keytab_module(keytab, principal),
    }
