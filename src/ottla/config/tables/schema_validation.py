"""Broker properties: the schema registry that is used for schema validation.

The names are Confluent's; without `confluent.` they are those of a registry client.
"""

from __future__ import annotations

from ottla.config.definition import LIST, PASSWORD, STRING, ConfigDefinition

D = ConfigDefinition

SCHEMA_VALIDATION: list[ConfigDefinition] = [
    D(
        "confluent.schema.registry.url",
        LIST,
        (),
        None,
        "The URLs of the schema registry, comma separated: http://host:8081.",
    ),
    *(
        D(f"confluent.{name}", STRING, None, None, f"How this broker logs in there: {name}.")
        for name in (
            *("basic.auth.credentials.source", "bearer.auth.credentials.source"),
            *("bearer.auth.issuer.endpoint.url", "bearer.auth.client.id", "bearer.auth.scope"),
            "schema.registry.ssl.keystore.location",
            "schema.registry.ssl.keystore.type",
            "schema.registry.ssl.truststore.location",
            "schema.registry.ssl.truststore.type",
        )
    ),
    *(
        D(f"confluent.{name}", PASSWORD, None, None, f"A secret of this login: {name}.")
        for name in (
            *("basic.auth.user.info", "bearer.auth.token", "bearer.auth.client.secret"),
            "schema.registry.ssl.key.password",
            "schema.registry.ssl.keystore.password",
            "schema.registry.ssl.truststore.password",
        )
    ),
]
