import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.errors.UnsupportedVersionException;

/** Admin: groups, offsets, records, log directories, the cluster. */
final class AdminChecks extends Checks {
    static void all() {
        check("admin: list, describe and delete groups", AdminChecks::groups);
        check("admin: alter, list and delete group offsets", AdminChecks::groupOffsets);
        check("admin: remove a static member", AdminChecks::removeMember);
        check("admin: list offsets", AdminChecks::listOffsets);
        check("admin: delete records", AdminChecks::deleteRecords);
        check("admin: describe log dirs", AdminChecks::logDirs);
        check("admin: describe cluster", () -> {
            var result = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
            equal(1, get(result.nodes()).size());
            equal(get(result.controller()).id(), get(result.nodes()).iterator().next().id());
            var node = get(result.nodes()).iterator().next();
            equal(bootstrap, node.host() + ":" + node.port());
            holds(get(result.clusterId()).length() > 10, "it has a cluster id");
        });
        check("admin: describe features", () -> {
            var features = get(admin.describeFeatures().featureMetadata());
            holds(features.supportedFeatures() != null, "supported features");
            holds(features.finalizedFeatures() != null, "finalized features");
            equal(2, (int) features.finalizedFeatures().get("transaction.version").maxVersionLevel());
            holds(features.finalizedFeatures().containsKey("metadata.version"), "metadata.version");
            holds(features.finalizedFeaturesEpoch().isPresent(), "an epoch");
        });
        check("admin: feature updates are validated", () -> {
            var downgrade = new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE);
            var asked = new UpdateFeaturesOptions().validateOnly(true);
            get(admin.updateFeatures(Map.of("transaction.version", downgrade), asked).all());
            var tooFar = new FeatureUpdate((short) 99, FeatureUpdate.UpgradeType.UPGRADE);
            String refused = refusal(admin.updateFeatures(Map.of("group.version", tooFar), asked).all());
            equal("InvalidUpdateVersionException", refused);
        });
        check("admin: describe producers", () -> {
            String topic = makeTopic(1);
            send(topic, 5, Map.of());
            TopicPartition partition = new TopicPartition(topic, 0);
            var future = admin.describeProducers(List.of(partition)).partitionResult(partition);
            try {
                equal(4, get(future).activeProducers().get(0).lastSequence());
            } catch (java.util.concurrent.ExecutionException refused) {
                holds(refused.getCause() instanceof UnsupportedVersionException, "" + refused.getCause());
            }
        });
        check("admin: elect leaders where none is needed", () -> {
            TopicPartition partition = new TopicPartition(makeTopic(1), 0);
            var result = admin.electLeaders(ElectionType.PREFERRED, Set.of(partition));
            String refused = refusal(result.all());
            holds(Set.of("none", "ElectionNotNeededException", "UnsupportedVersionException").contains(refused),
                refused);
        });
        check("admin: what comes later is refused and not hung", AdminChecks::later);
        check("admin: metrics are there and the client is healthy", () ->
            holds(admin.metrics().size() > 10, "metrics"));
    }

    static void groups() throws Exception {
        String topic = makeTopic(2);
        String group = unique("java-group");
        Map<String, Object> settings = Map.of("group.id", group, "client.id", "the-member");
        try (var consumer = consumer(settings)) {
            consumer.subscribe(List.of(topic));
            until("it has joined", () -> {
                consumer.poll(Duration.ofMillis(100));
                return consumer.assignment().size() == 2;
            });
            var listed = get(admin.listGroups(ListGroupsOptions.forConsumerGroups()).all());
            holds(listed.stream().anyMatch(g -> g.groupId().equals(group)), "the group is listed");
            var described = get(admin.describeConsumerGroups(List.of(group)).all()).get(group);
            equal(GroupState.STABLE, described.groupState());
            equal(1, described.members().size());
            var member = described.members().iterator().next();
            equal("the-member", member.clientId());
            equal(partitions(topic, 2), member.assignment().topicPartitions());
            equal("GroupNotEmptyException", refusal(admin.deleteConsumerGroups(List.of(group)).all()));
        }
        until("it is empty", () -> get(admin.describeConsumerGroups(List.of(group)).all()).get(group)
            .groupState() == GroupState.EMPTY);
        get(admin.deleteConsumerGroups(List.of(group)).all());
        equal("GroupIdNotFoundException", refusal(admin.deleteConsumerGroups(List.of(group)).all()));
        equal("GroupIdNotFoundException", refusal(admin.describeConsumerGroups(List.of(group)).all()));
    }

    static void groupOffsets() throws Exception {
        String topic = makeTopic(3);
        String group = unique("java-group");
        TopicPartition first = new TopicPartition(topic, 0);
        TopicPartition last = new TopicPartition(topic, 2);
        get(admin.alterConsumerGroupOffsets(group, Map.of(
            first, new OffsetAndMetadata(3, "three"), last, new OffsetAndMetadata(9))).all());
        var found = get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
        equal(Set.of(first, last), found.keySet());
        equal(3L, found.get(first).offset());
        equal("three", found.get(first).metadata());
        String other = unique("never-seen");
        var several = admin.listConsumerGroupOffsets(Map.of(
            group, new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(last)),
            other, new ListConsumerGroupOffsetsSpec()));
        equal(9L, get(several.partitionsToOffsetAndMetadata(group)).get(last).offset());
        equal(Map.of(), get(several.partitionsToOffsetAndMetadata(other)));
        get(admin.deleteConsumerGroupOffsets(group, Set.of(first)).all());
        equal(Set.of(last), get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).keySet());
    }

    static void removeMember() throws Exception {
        String topic = makeTopic(1);
        String group = unique("java-group");
        try (var consumer = consumer(Map.of("group.id", group, "group.instance.id", "rock"))) {
            consumer.subscribe(List.of(topic));
            until("it has joined", () -> {
                consumer.poll(Duration.ofMillis(100));
                return !consumer.assignment().isEmpty();
            });
        }
        var described = get(admin.describeConsumerGroups(List.of(group)).all()).get(group);
        equal(1, described.members().size());
        equal("rock", described.members().iterator().next().groupInstanceId().get());
        get(admin.removeMembersFromConsumerGroup(group,
            new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("rock")))).all());
        equal(0, get(admin.describeConsumerGroups(List.of(group)).all()).get(group).members().size());
    }

    static void listOffsets() throws Exception {
        TopicPartition partition = new TopicPartition(makeTopic(1), 0);
        long start = System.currentTimeMillis() - 100_000;
        try (var producer = producer(Map.of())) {
            for (long offset : new long[] {0, 5000, 1000}) {
                producer.send(new ProducerRecord<>(partition.topic(), 0, start + offset, "k", "v")).get();
            }
        }
        equal(0L, offset(partition, OffsetSpec.earliest()));
        equal(3L, offset(partition, OffsetSpec.latest()));
        equal(1L, offset(partition, OffsetSpec.maxTimestamp()));
        equal(1L, offset(partition, OffsetSpec.forTimestamp(start + 1)));
        equal(-1L, offset(partition, OffsetSpec.forTimestamp(start + 50_000)));
        equal(0L, offset(partition, OffsetSpec.earliestLocal()));
        equal(-1L, offset(partition, OffsetSpec.latestTiered()));
    }

    static long offset(TopicPartition partition, OffsetSpec spec) throws Exception {
        return get(admin.listOffsets(Map.of(partition, spec)).all()).get(partition).offset();
    }

    static void deleteRecords() throws Exception {
        String topic = makeTopic(1);
        TopicPartition partition = new TopicPartition(topic, 0);
        send(topic, 20, Map.of());
        var result = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(15)));
        equal(15L, get(result.lowWatermarks().get(partition)).lowWatermark());
        equal(15L, offset(partition, OffsetSpec.earliest()));
        equal(5, read(topic, 5, Map.of()).size());
        equal("OffsetOutOfRangeException",
            refusal(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(99))).all()));
    }

    static void logDirs() throws Exception {
        String topic = makeTopic(2);
        send(topic, 100, Map.of());
        int id = get(admin.describeCluster().nodes()).iterator().next().id();
        var dirs = get(admin.describeLogDirs(List.of(id)).allDescriptions()).get(id);
        holds(!dirs.isEmpty(), "there is a log directory");
        long size = 0;
        int replicas = 0;
        for (var dir : dirs.values()) {
            equal(null, dir.error());
            holds(dir.totalBytes().getAsLong() > 0, "its size is known");
            for (var entry : dir.replicaInfos().entrySet()) {
                if (!entry.getKey().topic().equals(topic)) continue;
                replicas += 1;
                size += entry.getValue().size();
                equal(false, entry.getValue().isFuture());
                equal(0L, entry.getValue().offsetLag());
            }
        }
        equal(2, replicas);
        holds(size > 100 * 10, "the records have a size: " + size);
    }

    static void later() throws Exception {
        String acls = refusal(admin.describeAcls(AclBindingFilter.ANY).values());
        holds(Set.of(SecurityDisabledException.class.getSimpleName(), "UnsupportedVersionException")
            .contains(acls), acls);
        String scram = refusal(admin.describeUserScramCredentials().users());
        holds(Set.of("none", "UnsupportedVersionException").contains(scram), scram);
        String quotas = refusal(admin.describeClientQuotas(
            org.apache.kafka.common.quota.ClientQuotaFilter.all()).entities());
        holds(Set.of("none", "UnsupportedVersionException").contains(quotas), quotas);
        String transactions = refusal(admin.listTransactions().all());
        holds(Set.of("none", "UnsupportedVersionException").contains(transactions), transactions);
        String quorum = refusal(admin.describeMetadataQuorum().quorumInfo());
        holds(Set.of("none", "UnsupportedVersionException").contains(quorum), quorum);
        String moves = refusal(admin.listPartitionReassignments().reassignments());
        holds(Set.of("none", "UnsupportedVersionException").contains(moves), moves);
    }
}
