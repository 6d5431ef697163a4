"""Guards of what administers a cluster: topics, configs, quotas, ACLs, and talk among brokers."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ottla.auth.acls import CLUSTER_NAME, AclOperation, AclResource
from ottla.broker.context import Context, Handler
from ottla.broker.guards.steps import CODES, MESSAGES, later
from ottla.broker.handlers.delete_topics import BY_ID_FROM
from ottla.broker.resources import ResourceType
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
from ottla.wire.messages.create_partitions import CreatePartitionsTopic, CreatePartitionsTopicResult
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicResult
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
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
from ottla.wire.primitives import ZERO_UUID

O, R = AclOperation, AclResource  # noqa: E741
TOPIC_DENIED = CODES[R.TOPIC]

CONFIG_RESOURCES = {ResourceType.TOPIC: R.TOPIC, ResourceType.GROUP: R.GROUP}
"""Configs of anything else are the cluster's."""


def create_topic_denied(topic: CreatableTopic, code: ErrorCode) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name, error_code=code, error_message=MESSAGES[code], configs=[]
    )


def create_partitions_denied(
    topic: CreatePartitionsTopic, code: ErrorCode
) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(topic.name, code, MESSAGES[code])


def delete_topics(handle: Handler, ctx: Context, request: DeleteTopicsRequest) -> Any:
    """DELETE on the cluster or on each; only clients that may DESCRIBE a topic see its name."""
    if ctx.may(O.DELETE, R.CLUSTER, quiet=True):
        return handle(ctx, request)
    by_id = ctx.version >= BY_ID_FROM
    asked = request.topics
    if not by_id:
        asked = [DeleteTopicState(name=name) for name in request.topic_names]
    answers = [(topic, _delete_denied(ctx, topic)) for topic in asked]
    denied = [answer for _, answer in answers if answer is not None]
    if not denied:
        return handle(ctx, request)
    allowed = [topic for topic, answer in answers if answer is None]
    if not allowed:
        return DeleteTopicsResponse(responses=denied)
    request.topics = allowed if by_id else []
    request.topic_names = [] if by_id else [topic.name or "" for topic in allowed]

    def merged(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        response.responses += denied
        return response

    return later(handle(ctx, request), merged)


def _delete_denied(ctx: Context, topic: DeleteTopicState) -> DeletableTopicResult | None:
    name = topic.name
    if name is None:
        name = ctx.broker.image.topic_name(topic.topic_id)
        if not name:
            return None  # nobody has this id: the handler says so
        if not ctx.may(O.DESCRIBE, R.TOPIC, name):
            return _topic_denied(None, topic.topic_id)
    if ctx.may(O.DELETE, R.TOPIC, name):
        return None
    if name not in ctx.broker.image.topics and ctx.may(O.DESCRIBE, R.TOPIC, name):
        return None  # it may learn that there is no such topic
    return _topic_denied(name, topic.topic_id)


def _topic_denied(name: str | None, topic_id: bytes) -> DeletableTopicResult:
    message = MESSAGES[TOPIC_DENIED]
    return DeletableTopicResult(name, topic_id or ZERO_UUID, TOPIC_DENIED, message)


class ConfigsGuard:
    """One operation on each resource whose configs are asked for, or are to be changed."""

    def __init__(self, operation: AclOperation, module: str, result: str, into: str) -> None:
        self._operation = operation
        self._module = import_module(f"ottla.wire.messages.{module}")
        self._result = getattr(self._module, result)
        self._into = into

    def __call__(self, handle: Handler, ctx: Context, request: Any) -> Any:
        denied = []
        allowed = []
        for asked in request.resources:
            resource = CONFIG_RESOURCES.get(asked.resource_type, R.CLUSTER)
            name = CLUSTER_NAME if resource is R.CLUSTER else asked.resource_name
            if ctx.may(self._operation, resource, name):
                allowed.append(asked)
                continue
            code = CODES[resource]
            answer = self._result(
                error_code=code,
                error_message=MESSAGES[code],
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
            denied.append(answer)
        if not denied:
            return handle(ctx, request)
        request.resources = allowed

        def merged(response: Any) -> Any:
            getattr(response, self._into).extend(denied)
            return response

        return later(handle(ctx, request), merged)


def move_refused(
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


def elect_refused(request: ElectLeadersRequest, code: ErrorCode) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic.topic,
                [PartitionResult(index, code, MESSAGES[code]) for index in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def describe_quotas_refused(
    request: DescribeClientQuotasRequest, code: ErrorCode
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=MESSAGES[code], entries=None)


def alter_quotas_refused(
    request: AlterClientQuotasRequest, code: ErrorCode
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                code,
                MESSAGES[code],
                [EntityData(each.entity_type, each.entity_name) for each in entry.entity],
            )
            for entry in request.entries
        ]
    )


def describe_scram_refused(
    request: DescribeUserScramCredentialsRequest, code: ErrorCode
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=MESSAGES[code],
        results=[
            DescribeUserScramCredentialsResult(user.name, code, MESSAGES[code])
            for user in request.users or ()
        ],
    )


def alter_scram_refused(
    request: AlterUserScramCredentialsRequest, code: ErrorCode
) -> AlterUserScramCredentialsResponse:
    names = [each.name for each in request.deletions]
    names += [each.name for each in request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(name, code, MESSAGES[code])
            for name in dict.fromkeys(names)
        ]
    )


def create_acls_refused(request: CreateAclsRequest, code: ErrorCode) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=code, error_message=MESSAGES[code])
    return CreateAclsResponse(results=[refused] * len(request.creations))


def delete_acls_refused(request: DeleteAclsRequest, code: ErrorCode) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=code, error_message=MESSAGES[code])
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))


class ShareStateRefusal:
    """What brokers tell the coordinators of share groups: an error for each partition."""

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
                        partition=each.partition, error_code=code, error_message=MESSAGES[code]
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return getattr(module, response_name)(results=results)
