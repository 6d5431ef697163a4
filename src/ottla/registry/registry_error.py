"""The registry's errors, with Confluent's codes and messages."""

from __future__ import annotations

from typing import Final

NOT_FOUND: Final = 404
CONFLICT: Final = 409
UNPROCESSABLE: Final = 422
# Registry 8.1 answers 409; later ones 40901. Clients check the status.
INCOMPATIBLE: Final = 409
CODE_DIVISOR: Final = 100


class RegistryError(Exception):
    """`code` as in the answer's body; its first three digits are the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        return self.code if self.code < 1000 else self.code // CODE_DIVISOR


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int | str) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(which: int | str | None = None) -> RegistryError:
    return RegistryError(
        40403, "Schema not found" if which is None else f"Schema {which} not found"
    )


def subject_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(
        40404,
        f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently",
    )


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(
        40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
    )


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40406,
        f"Subject '{subject}' Version {version} was soft deleted."
        "Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently"
        " deleted",
    )


def no_subject_level(subject: str) -> RegistryError:
    return RegistryError(
        40408, f"Subject '{subject}' does not have subject-level compatibility configured"
    )


def no_subject_mode(subject: str) -> RegistryError:
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, messages: list[str]) -> RegistryError:
    return RegistryError(
        INCOMPATIBLE,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}",'
        f" details: [{', '.join(messages)}]",
    )


def invalid_schema(why: str) -> RegistryError:
    return RegistryError(42201, why)


def invalid_version(version: str) -> RegistryError:
    return RegistryError(
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between"
        ' [1, 2^31-1] and the string "latest"',
    )


def invalid_level() -> RegistryError:
    return RegistryError(
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full,"
        " backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode() -> RegistryError:
    return RegistryError(
        42204,
        "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT, FORWARD",
    )


def not_permitted(why: str) -> RegistryError:
    return RegistryError(42205, why)


def reference_exists(subject: str, version: int) -> RegistryError:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RegistryError(42206, f"One or more references exist to the schema {key}.")


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(42208, f"The specified subject '{subject}' is not a valid.")


def invalid_rule_set(why: str) -> RegistryError:
    return RegistryError(42210, why)


def context_not_empty(context: str) -> RegistryError:
    return RegistryError(42211, f"The specified context '{context}' is not empty.")
