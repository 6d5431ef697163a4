"""A converter and a registry that requires TLS and authentication."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.connect.converters.avro import AvroConverter
from ottla.connect.data import INT32_SCHEMA
from ottla.connect.errors import DataException
from ottla.registry.settings import settings_of
from ottla.testing import LocalCluster
from ottla.testing.certificates import CertificateAuthority


def converter(url: str, login: str, authority: CertificateAuthority) -> AvroConverter:
    made = AvroConverter()
    made.configure(
        {
            "converter.type": "key",
            "schema.registry.url": url,
            "basic.auth.credentials.source": "USER_INFO",
            "basic.auth.user.info": login,
            "schema.registry.ssl.truststore.type": "PEM",
            "schema.registry.ssl.truststore.location": str(authority.certificate),
        }
    )
    return made


def test_a_converter_logs_in_over_tls(tmp_path: Path) -> None:
    users = tmp_path / "users.properties"
    users.write_text("rob: letmein,read-only\nann: secret,admin\n")
    users.chmod(0o600)
    authority = CertificateAuthority(tmp_path)
    authority.issue("localhost")
    properties = {
        "listeners": "https://localhost:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "localhost.pem"),
        "authentication.method": "BASIC",
        "ottla.authentication.users.file": str(users),
    }
    with LocalCluster() as cluster:
        properties["kafkastore.bootstrap.servers"] = cluster.bootstrap_servers
        with settings_of(properties, cluster.client_settings()).server() as server:
            writer = converter(server.url, "ann:secret", authority)
            data = writer.from_connect("safe", INT32_SCHEMA, 7)
            reader = converter(server.url, "rob:letmein", authority)
            assert reader.to_connect("safe", data)[1] == 7
            with pytest.raises(DataException, match="may not POST"):
                reader.from_connect("other", INT32_SCHEMA, 7)
            writer.close()
            reader.close()
