"""Every path that is served, and its right. The hottest come first, because they are tried in
this order."""

from __future__ import annotations

from ottla.registry.rest import config_routes
from ottla.registry.rest import route_rights as rights
from ottla.registry.rest import schema_routes as schemas
from ottla.registry.rest import subject_routes as subjects
from ottla.registry.rest.route_rights import RouteRight
from ottla.registry.rest.router import Handler

VERSION = "/subjects/{subject}/versions/{version}"
RESOURCES = "/associations/resources"

ROUTES: list[tuple[str, str, Handler, RouteRight]] = [
    ("GET", "/schemas/ids/{id}", schemas.show_id, rights.filtered),
    ("POST", "/subjects/{subject}", subjects.look_up, rights.DESCRIBE),
    ("POST", "/subjects/{subject}/versions", subjects.register, rights.WRITE),
    ("GET", VERSION, subjects.show_version, rights.READ),
    ("GET", "/subjects/{subject}/versions", subjects.list_versions, rights.DESCRIBE),
    ("GET", "/subjects", subjects.list_subjects, rights.filtered),
    ("DELETE", "/subjects/{subject}", subjects.delete_subject, rights.DELETE),
    ("GET", "/subjects/{subject}/metadata", subjects.find_metadata, rights.READ),
    ("GET", f"{VERSION}/schema", subjects.show_version_text, rights.READ),
    ("GET", f"{VERSION}/referencedby", subjects.list_referrers, rights.READ),
    ("DELETE", VERSION, subjects.delete_version, rights.DELETE),
    ("POST", f"{VERSION}/tags", subjects.change_tags, rights.WRITE),
    ("GET", "/schemas", schemas.list_schemas, rights.filtered),
    ("GET", "/schemas/types", schemas.list_types, rights.nothing),
    ("GET", "/schemas/ids/{id}/schema", schemas.show_id_text, rights.filtered),
    ("GET", "/schemas/ids/{id}/subjects", schemas.list_id_subjects, rights.filtered),
    ("GET", "/schemas/ids/{id}/versions", schemas.list_id_versions, rights.filtered),
    ("GET", "/schemas/guids/{guid}", schemas.show_guid, rights.filtered),
    ("GET", "/schemas/guids/{guid}/ids", schemas.list_guid_ids, rights.filtered),
    ("GET", "/config", config_routes.show_config, rights.DESCRIBE_CONFIGS),
    ("PUT", "/config", config_routes.change_config, rights.ALTER_CONFIGS),
    ("DELETE", "/config", config_routes.delete_config, rights.ALTER_CONFIGS),
    ("GET", "/config/{subject}", config_routes.show_config, rights.DESCRIBE_CONFIGS),
    ("PUT", "/config/{subject}", config_routes.change_config, rights.ALTER_CONFIGS),
    ("DELETE", "/config/{subject}", config_routes.delete_config, rights.ALTER_CONFIGS),
    ("GET", "/mode", config_routes.show_mode, rights.DESCRIBE_CONFIGS),
    ("PUT", "/mode", config_routes.change_mode, rights.ALTER_CONFIGS),
    ("DELETE", "/mode", config_routes.delete_mode, rights.ALTER_CONFIGS),
    ("GET", "/mode/{subject}", config_routes.show_mode, rights.DESCRIBE_CONFIGS),
    ("PUT", "/mode/{subject}", config_routes.change_mode, rights.ALTER_CONFIGS),
    ("DELETE", "/mode/{subject}", config_routes.delete_mode, rights.ALTER_CONFIGS),
    ("POST", f"/compatibility{VERSION}", config_routes.check_version, rights.WRITE),
    (
        "POST",
        "/compatibility/subjects/{subject}/versions",
        config_routes.check_versions,
        rights.WRITE,
    ),
    ("GET", "/contexts", config_routes.list_contexts, rights.filtered),
    ("DELETE", "/contexts/{context}", config_routes.delete_context, rights.DELETE_CONTEXT),
    ("GET", "/associations/subjects/{subject}", config_routes.list_associations, rights.filtered),
    (
        "GET",
        f"{RESOURCES}/{{namespace}}/{{name}}",
        config_routes.list_associations,
        rights.filtered,
    ),
    ("GET", f"{RESOURCES}/{{resource_id}}", config_routes.list_associations, rights.filtered),
    ("GET", "/", config_routes.show_root, rights.nothing),
    ("POST", "/", config_routes.show_root, rights.nothing),
    ("GET", "/v1/metadata/id", config_routes.show_cluster, rights.nothing),
    ("GET", "/v1/metadata/version", config_routes.show_server_version, rights.nothing),
    ("GET", "/v1/metadata/deployment", config_routes.show_deployment, rights.nothing),
]
