"""Every path that is served. The hottest come first: they are tried in this order."""

from __future__ import annotations

from ottla.registry.rest import schema_routes as schemas
from ottla.registry.rest import setting_routes as settings
from ottla.registry.rest import subject_routes as subjects
from ottla.registry.rest.router import Handler

VERSION = "/subjects/{subject}/versions/{version}"

ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", "/schemas/ids/{id}", schemas.show_id),
    ("POST", "/subjects/{subject}", subjects.look_up),
    ("POST", "/subjects/{subject}/versions", subjects.register),
    ("GET", VERSION, subjects.show_version),
    ("GET", "/subjects/{subject}/versions", subjects.list_versions),
    ("GET", "/subjects", subjects.list_subjects),
    ("DELETE", "/subjects/{subject}", subjects.delete_subject),
    ("GET", "/subjects/{subject}/metadata", subjects.find_metadata),
    ("GET", f"{VERSION}/schema", subjects.show_version_text),
    ("GET", f"{VERSION}/referencedby", subjects.list_referrers),
    ("DELETE", VERSION, subjects.delete_version),
    ("POST", f"{VERSION}/tags", subjects.change_tags),
    ("GET", "/schemas", schemas.list_schemas),
    ("GET", "/schemas/types", schemas.list_types),
    ("GET", "/schemas/ids/{id}/schema", schemas.show_id_text),
    ("GET", "/schemas/ids/{id}/subjects", schemas.list_id_subjects),
    ("GET", "/schemas/ids/{id}/versions", schemas.list_id_versions),
    ("GET", "/schemas/guids/{guid}", schemas.show_guid),
    ("GET", "/schemas/guids/{guid}/ids", schemas.list_guid_ids),
    ("GET", "/config", settings.show_config),
    ("PUT", "/config", settings.change_config),
    ("DELETE", "/config", settings.delete_config),
    ("GET", "/config/{subject}", settings.show_config),
    ("PUT", "/config/{subject}", settings.change_config),
    ("DELETE", "/config/{subject}", settings.delete_config),
    ("GET", "/mode", settings.show_mode),
    ("PUT", "/mode", settings.change_mode),
    ("DELETE", "/mode", settings.delete_mode),
    ("GET", "/mode/{subject}", settings.show_mode),
    ("PUT", "/mode/{subject}", settings.change_mode),
    ("DELETE", "/mode/{subject}", settings.delete_mode),
    ("POST", f"/compatibility{VERSION}", settings.check_version),
    ("POST", "/compatibility/subjects/{subject}/versions", settings.check_versions),
    ("GET", "/contexts", settings.list_contexts),
    ("DELETE", "/contexts/{context}", settings.delete_context),
    ("GET", "/associations/subjects/{subject}", settings.list_associations),
    ("GET", "/associations/resources/{namespace}/{name}", settings.list_associations),
    ("GET", "/associations/resources/{resource_id}", settings.list_associations),
    ("GET", "/", settings.show_root),
    ("POST", "/", settings.show_root),
    ("GET", "/v1/metadata/id", settings.show_cluster),
    ("GET", "/v1/metadata/version", settings.show_server_version),
    ("GET", "/v1/metadata/deployment", settings.show_deployment),
]
