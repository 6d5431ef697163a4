"""A consumer of a transcript: its memory and its subscription."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.wire.fields import Writer
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.consumer_protocol_subscription import TopicPartition as OwnedTopic
from ottla.wire.messages.join_group import JoinGroupRequestProtocol


@dataclass
class Client:
    """A consumer's memory, and its last options."""

    name: str
    member_id: str = ""
    generation: int = -1
    epoch: int = 0
    owned: list[str] = field(default_factory=list)
    protocol: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    def option(self, key: str, default: str) -> str:
        return self.options.get(key, default)

    @property
    def group(self) -> str:
        return self.option("group", "g")

    @property
    def instance(self) -> str | None:
        return self.options.get("instance")


def protocols(text: str, client: Client, owns: str | None) -> list[JoinGroupRequestProtocol]:
    """`range:t,u/roundrobin:t`: names in order of preference, each with its topics."""
    found = []
    for part in text.split("/"):
        name, _, topics = part.partition(":")
        version = 0 if owns is None else 2
        subscription = ConsumerProtocolSubscription(topics=topics.split(","))
        if owns is not None:
            subscription.generation_id = client.generation
            for place in owns.split(","):
                topic, index = place.rsplit("-", 1)
                subscription.owned_partitions.append(OwnedTopic(topic, [int(index)]))
        writer = Writer()
        writer.buffer += version.to_bytes(2, "big")
        subscription.write(writer, version)
        found.append(JoinGroupRequestProtocol(name, bytes(writer.buffer)))
    return found
