"""Responses to refused requests whose errors are inside lists, one per item of the request."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ottla.broker.authorization.authorization_steps import (
    DENIED_MESSAGES,
)
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    ResponseEntryData,
)
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ottla.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


def move_refusal(
    request: AlterReplicaLogDirsRequest, code: ErrorCode
) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic.name,
                [AlterReplicaLogDirPartitionResult(index, code) for index in topic.partitions],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def elect_refusal(request: ElectLeadersRequest, code: ErrorCode) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic.topic,
                [PartitionResult(index, code, DENIED_MESSAGES[code]) for index in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def describe_quotas_refusal(
    request: DescribeClientQuotasRequest, code: ErrorCode
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_code=code, error_message=DENIED_MESSAGES[code], entries=None
    )


def alter_quotas_refusal(
    request: AlterClientQuotasRequest, code: ErrorCode
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                code,
                DENIED_MESSAGES[code],
                [EntityData(part.entity_type, part.entity_name) for part in entry.entity],
            )
            for entry in request.entries
        ]
    )


def describe_scram_refusal(
    request: DescribeUserScramCredentialsRequest, code: ErrorCode
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=DENIED_MESSAGES[code],
        results=[
            DescribeUserScramCredentialsResult(user.name, code, DENIED_MESSAGES[code])
            for user in request.users or ()
        ],
    )


def alter_scram_refusal(
    request: AlterUserScramCredentialsRequest, code: ErrorCode
) -> AlterUserScramCredentialsResponse:
    names = [deletion.name for deletion in request.deletions]
    names += [upsertion.name for upsertion in request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(name, code, DENIED_MESSAGES[code])
            for name in dict.fromkeys(names)
        ]
    )


def create_acls_refusal(request: CreateAclsRequest, code: ErrorCode) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=code, error_message=DENIED_MESSAGES[code])
    return CreateAclsResponse(results=[refused] * len(request.creations))


def delete_acls_refusal(request: DeleteAclsRequest, code: ErrorCode) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=code, error_message=DENIED_MESSAGES[code])
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))


class ShareStateRefusal:
    """Refuses requests for share group states with an error for each partition."""

    def __init__(self, module: str, result: str) -> None:
        self._module = module
        self._result = result

    def __call__(self, request: Any, code: ErrorCode) -> Any:
        module = import_module(f"ottla.wire.messages.{self._module}")
        response_name = type(request).__name__.removesuffix("Request") + "Response"
        results = [
            getattr(module, self._result)(
                topic.topic_id,
                [
                    module.PartitionResult(
                        partition=partition.partition,
                        error_code=code,
                        error_message=DENIED_MESSAGES[code],
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return getattr(module, response_name)(results=results)
