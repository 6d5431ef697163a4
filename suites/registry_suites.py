"""Suites for the schema registry. `catalogue.py` has the others."""

from __future__ import annotations

from suites import registry_steps
from suites.registry_server import RegistryNeed
from suites.sources import GoCheckout, NodeCheckout, PythonCheckout
from suites.suite import KnownFailure, Suite

MINUTE_S = 60

AXONOPS_SOURCE = GoCheckout("axonops-schema-registry", packages=("./tests/bdd",), tags="bdd")
AXONOPS_NAMES = "expects names without their context, which Confluent's registry answers with it"
AXONOPS_IDENTITY = (
    "expects one id for schemas with different metadata; an id of Confluent's stands for text,"
    " references, metadata and rules together"
)
AXONOPS_RULES = (
    "expects 42201 for a bad rule set; Confluent's registry has 42210 (SubjectVersionsResource),"
    " and 400 for a kind or mode that it can't read (JsonMappingExceptionMapper of rest-utils)"
)

AXONOPS = Suite(
    name="AxonOps registry",
    source=AXONOPS_SOURCE,
    steps=registry_steps.axonops,
    brokers=(1,),
    registry=RegistryNeed(),
    known=(
        KnownFailure(
            "gauge_reports|All_wire-compatible_metrics",
            "metrics by the names of an exporter of JMX, which the registry does not have",
        ),
        KnownFailure(
            "Hard-delete_reference_then_register",
            "deletes for good what a soft-deleted schema refers to, as Confluent's registry 8.1.0"
            " allows; since January 2026 (DGS-23359) it refuses that with 42206",
        ),
        KnownFailure(
            "Detect_required_array_to_be_changed",
            "a name without a schema becomes required: Confluent's registry does not see it, and"
            " what was written before can't be read",
        ),
    ),
    limit_s=40 * MINUTE_S,
)

AXONOPS_CONTEXTS = Suite(
    name="AxonOps registry, contexts",
    source=AXONOPS_SOURCE,
    steps=registry_steps.axonops_tagged("contexts"),
    brokers=(1,),
    registry=RegistryNeed(),
    known=(
        KnownFailure(
            "Schema_lookup_returns_correct_result_in_context"
            "|Get_subjects_for_schema_ID_in_context_via_URL_prefix"
            "|Schema_version_detail_includes_references_field"
            "|List_subjects_via_URL_prefix_returns_plain_names",
            AXONOPS_NAMES,
        ),
        KnownFailure(
            "Subject_listing_is_scoped_to_default_context_only"
            "|Subject_listing_is_context-scoped_via_URL_prefix|Multi-team_isolation",
            "expects subjects of the default context alone; Confluent's registry lists all contexts"
            " unless a prefix is given",
        ),
        KnownFailure(
            "(register_schema|list_subjects)_under___GLOBAL",
            "expects 400; Confluent's registry answers 42208, and an empty list",
        ),
        KnownFailure(
            "Context_name_with_.*_is_rejected|Multiple_invalid_context_attempts",
            "expects 422 for letters that Confluent's registry takes in the name of a context",
        ),
        KnownFailure(
            "Raw_schema_endpoint_for_schema_with_references",
            "expects the text as it was sent; Avro's canonical text has names without a namespace"
            " where it is that of the record around them",
        ),
    ),
    limit_s=20 * MINUTE_S,
)

AXONOPS_IMPORT = Suite(
    name="AxonOps registry, import",
    source=AXONOPS_SOURCE,
    steps=registry_steps.axonops_tagged("import"),
    brokers=(1,),
    registry=RegistryNeed(),
    known=(
        KnownFailure(
            "subject_parameter_filters",
            "expects a filter; in Confluent's registry this parameter chooses the context",
        ),
        KnownFailure(
            "IMPORT_mode_rejects_re-registration",
            "Confluent's registry looks a schema up first, and answers with the one it has",
        ),
        KnownFailure(
            "[Ii]mport|Schema_IDs_after_import",
            "POST /import/schemas, which AxonOps' registry alone has",
        ),
    ),
    limit_s=20 * MINUTE_S,
)

AXONOPS_CONTRACTS = Suite(
    name="AxonOps registry, data contracts",
    source=AXONOPS_SOURCE,
    steps=registry_steps.axonops_tagged("data-contracts"),
    brokers=(1,),
    registry=RegistryNeed(),
    known=(
        KnownFailure("KEK|DEK", "the DEK registry, a product of its own, which is not served"),
        KnownFailure(
            "Invalid_on(Success|Failure)_action",
            "expects 42201; Confluent's registry takes any action (Rule.validate), because clients"
            " may bring their own",
        ),
        KnownFailure(
            "rule_name_returns_422|rule_kind_(in_migration|returns_422)|Rule_kind_accepts"
            "|Invalid_mode_for|rule_mode_must_be|Invalid_(default|override)RuleSet",
            AXONOPS_RULES,
        ),
        KnownFailure(
            "only_confluent:version_in_response",
            "expects confluent:version in each schema; Confluent's registry sets it where a request"
            " has a version",
        ),
        KnownFailure(
            "schema_identity|same_(global_)?ID|Version_count_reflects|most_recent_metadata",
            AXONOPS_IDENTITY,
        ),
    ),
    limit_s=20 * MINUTE_S,
)

KAFKAJS_REGISTRY = Suite(
    name="kafkajs schema registry",
    source=NodeCheckout(
        "confluent-schema-registry",
        copied=(
            "src", "fixtures", "jest.config.js", "jest.setup.ts", "package.json", "tsconfig.json",
            "yarn.lock",
        ),
    ),
    steps=registry_steps.kafkajs_registry,
    brokers=(1,),
    registry=RegistryNeed(port=8982),
    left_out={"avdlToAVSC": "compiles Avro IDL with a container of Avro's tools"},
    known=(
        KnownFailure(
            "#register uploads the new schema|#register accepts schema without a namespace",
            "expects the id alone, as registry 5.5 answers; 8.1 answers with the whole schema",
        ),
    ),
    limit_s=15 * MINUTE_S,
)  # fmt: skip

# What Confluent's registry does was read in its source (confluentinc/schema-registry, August 2026);
# a class in brackets says where.
KARAPACE_KNOWN = (
    KnownFailure(
        "test_references\\[.*-(With reference( chain)?|Delete reference [^]]*)\\]",
        "expects the id 1 of a registry that has just been made, but with --registry-url all tests"
        " share one; alone on a new registry they pass",
    ),
    KnownFailure(
        "test_references\\[.*nested message",
        "gives a reference by another name than the file imports; a type that nothing defines is"
        " 42201 for Confluent's registry, too (ProtobufSchema)",
    ),
    KnownFailure(
        "test_references\\[|test_schema::test_(invalid_|schema_subject_post_invalid)"
        "|test_avro_incompatible_name_references",
        "expects the words of Karapace's refusals; the codes are the same, and Confluent's words"
        " begin with Invalid schema, or Schema being registered is incompatible",
    ),
    KnownFailure(
        "test_protobuf_schema_(references|verifier)\\[",
        "expects ids of a new registry, and that a soft-deleted referrer prevents a soft delete;"
        " Confluent's registry counts such referrers for permanent deletes alone"
        " (KafkaSchemaRegistry.deleteSchemaVersion)",
    ),
    KnownFailure(
        "test_jsonschema::test_schemaregistry_(schemaregistry_extra_field_with_closed|true_and)",
        "refuses a schema after false, by which nothing can have been written; Confluent's registry"
        " finds no difference where the old schema is false (SchemaDiff)",
    ),
    KnownFailure(
        "test_schemaregistry_true_schema_is_compatible",
        "refuses true after other schemas; Confluent's registry finds no difference where the new"
        " schema takes everything (SchemaDiff)",
    ),
    KnownFailure(
        "test_schemaregistry_boolean_schemas",
        "expects that false may follow true, which is TYPE_CHANGED for Confluent's registry"
        " (SchemaDiff)",
    ),
    KnownFailure(
        "test_schemaregistry_(object_properties|property_names)",
        "refuses a property without a schema in an open object; with Confluent's registry this is"
        " PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL, a compatible change, and"
        " propertyNames is not compared (ObjectSchemaDiff)",
    ),
    KnownFailure(
        "test_schema_compatibility::test_schema_compatibility\\[pyloop-test_case[67]",
        "expects 404 for the latest version of a subject that has only soft-deleted ones; for"
        " Confluent's registry every schema is compatible with it (CompatibilityResource)",
        sometimes=True,
    ),
    KnownFailure(
        "test_schema_compatibility::|test_avro_references_compatibility",
        "expects messages in each answer, which Confluent's registry gives with verbose=true alone"
        " (CompatibilityResource)",
    ),
    KnownFailure(
        "test_(record_schema_subject_compatibility|schema_same_subject|basic_avro_references"
        "|malformed_kafka_message|remote_client\\b)",
        "compares whole answers: Confluent's registry has guid, ts and schemaType in them (Schema),"
        " and Avro's text as Avro's library writes it, type and name first",
    ),
    KnownFailure(
        "test_(union_comparing_to_other_types|get_schema_with_subjects)",
        "includeSubjects, which Karapace alone has: no resource of Confluent's takes it",
    ),
    KnownFailure(
        "test_(schema_missing_body|schema_body_validation|compatibility_endpoint"
        "|regression_(compatibility_should|invalid_)"
        "|protobuf_schema_references_rejected_values)",
        "expects code 422 where Confluent's registry has 42201 (Errors), or 400 for a body that it"
        " can't read (JsonMappingExceptionMapper of rest-utils)",
    ),
    KnownFailure(
        "test_(schema_hard_delete_and_recreate|schema_recreate_after)",
        "expects that a schema keeps its id after it has been deleted for good; Confluent's"
        " registry finds no id without a version (InMemoryCache.schemaIdAndSubjects)",
    ),
    KnownFailure(
        "test_schema_hard_delete_version",
        "expects a space in the words for a version that was soft deleted, where Confluent's have"
        " none (Errors)",
    ),
    KnownFailure(
        "test_schema_listing",
        "expects the id 1 of a registry that has just been made, but with --registry-url all tests"
        " share one; alone on a new registry they pass",
    ),
    KnownFailure(
        "test_schema_versions_multiple_subjects",
        "expects subjects in the order of their registration; Confluent's registry has them in the"
        " order of a hash map (InMemoryCache), and here they are sorted",
    ),
    KnownFailure(
        "test_schema_json_subject_comparison",
        "expects that the order of keys does not count; Confluent's registry compares the text as"
        " it was written, unless normalize=true (JsonSchema.canonicalString)",
    ),
    KnownFailure(
        "test_config",
        "expects the word compatibility in the answer of DELETE /config, where Confluent's registry"
        " has compatibilityLevel (ConfigResource)",
    ),
    KnownFailure(
        "test_http_headers",
        "expects 406 and 415 for other media types, as Confluent's registry answers; they are taken"
        " here, so that curl needs no headers",
    ),
    KnownFailure(
        "test_full_transitive_failure",
        "registers a default that is not of its type, which Confluent's registry refuses in a new"
        " schema (AvroSchema: setValidateDefaults)",
    ),
    KnownFailure(
        "test_schema_non_compliant_name",
        "registers names that Avro does not allow behind a version that has them; Confluent's"
        " registry reads the old one, as is done here, and refuses the new (AvroSchema)",
    ),
    KnownFailure(
        "test_subject_mode",
        "expects the global mode where a subject has no mode, which is 40409 for Confluent's"
        " registry (ModeResource)",
    ),
    KnownFailure(
        "test_registering_normalized_schema|test_remote_client_tls",
        "starts a registry of Karapace's, or needs its certificates",
    ),
)
KARAPACE = Suite(
    name="Karapace",
    source=PythonCheckout(
        "karapace",
        "",
        version_in="",
        copied=("src", "tests", "pytest.ini"),
        requirements=(
            "accept-types", "aiohttp", "aiokafka<0.13", "async_lru", "avro", "cachetools",
            "confluent-kafka", "cryptography", "dependency-injector", "fastapi[standard]",
            "filelock", "jsonschema", "lz4", "networkx", "opentelemetry-api", "opentelemetry-sdk",
            "opentelemetry-exporter-otlp", "opentelemetry-proto<1.28.0", "orjson",
            "prometheus-client", "prometheus-fastapi-instrumentator", "protobuf==3.20.3",
            "pydantic", "pydantic-settings", "pyjwt", "pytest", "pytest-aiohttp", "pytest-timeout",
            "pytest-xdist", "python-dateutil", "python-snappy", "requests", "tenacity", "ujson",
            "watchfiles", "yarl", "zstandard",
        ),
    ),
    steps=registry_steps.karapace,
    brokers=(1,),
    settings={"auto.create.topics.enable": "true"},
    registry=RegistryNeed(),
    known=KARAPACE_KNOWN,
    limit_s=30 * MINUTE_S,
)  # fmt: skip

SUITES = (
    AXONOPS,
    AXONOPS_CONTEXTS,
    AXONOPS_IMPORT,
    AXONOPS_CONTRACTS,
    KAFKAJS_REGISTRY,
    KARAPACE,
)
