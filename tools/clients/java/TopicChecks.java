import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;

/** Admin: topics and configs. */
final class TopicChecks extends Checks {
    static void all() {
        check("admin: create, describe and delete topics", TopicChecks::lifecycle);
        check("admin: created topic reports its configs", () -> {
            String topic = unique("java");
            var result = admin.createTopics(List.of(
                new NewTopic(topic, Optional.empty(), Optional.empty()).configs(Map.of("retention.ms", "5000000"))));
            equal(2, get(result.numPartitions(topic)));
            equal(1, get(result.replicationFactor(topic)));
            holds(!get(result.topicId(topic)).equals(Uuid.ZERO_UUID), "it has an id");
            Config config = get(result.config(topic));
            equal("5000000", config.get("retention.ms").value());
            equal(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, config.get("retention.ms").source());
            equal(ConfigEntry.ConfigSource.DEFAULT_CONFIG, config.get("cleanup.policy").source());
        });
        check("admin: create topics refusals", TopicChecks::refusals);
        check("admin: validate only", () -> {
            String topic = unique("java");
            get(admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1)),
                new CreateTopicsOptions().validateOnly(true)).all());
            holds(!get(admin.listTopics().names()).contains(topic), "nothing was created");
        });
        check("admin: delete topics by id", () -> {
            String topic = makeTopic(1);
            Uuid id = describe(topic).topicId();
            get(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all());
            until("it is gone", () -> !get(admin.listTopics().names()).contains(topic));
        });
        check("admin: describe topics by id", () -> {
            String topic = makeTopic(2);
            Uuid id = describe(topic).topicId();
            var result = admin.describeTopics(TopicCollection.ofTopicIds(List.of(id)));
            equal(topic, get(result.allTopicIds()).get(id).name());
        });
        check("admin: create partitions", () -> {
            String topic = makeTopic(1);
            get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all());
            until("four partitions", () -> describe(topic).partitions().size() == 4);
            equal("InvalidPartitionsException",
                refusal(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all()));
        });
        check("admin: describe many partitions page by page", () -> {
            String topic = makeTopic(25);
            var options = new DescribeTopicsOptions().partitionSizeLimitPerResponse(7);
            var described = get(admin.describeTopics(List.of(topic), options).allTopicNames()).get(topic);
            equal(25, described.partitions().size());
            for (int p = 0; p < 25; p++) equal(p, described.partitions().get(p).partition());
        });
        check("admin: topic configs with synonyms and documentation", TopicChecks::topicConfigs);
        check("admin: broker configs", TopicChecks::brokerConfigs);
        check("admin: incremental alter of topic configs", TopicChecks::incrementalAlter);
        check("admin: incremental alter of broker configs", TopicChecks::brokerAlter);
    }

    static TopicDescription describe(String topic) throws Exception {
        return get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
    }

    static void lifecycle() throws Exception {
        String topic = makeTopic(3);
        TopicDescription described = describe(topic);
        equal(topic, described.name());
        equal(false, described.isInternal());
        equal(3, described.partitions().size());
        for (var partition : described.partitions()) {
            equal(partition.leader(), partition.replicas().get(0));
            equal(partition.replicas(), partition.isr());
            holds(partition.elr() != null, "eligible leaders are not null");
            holds(partition.lastKnownElr() != null, "last known eligible leaders are not null");
        }
        get(admin.deleteTopics(List.of(topic)).all());
        until("it is gone", () -> !get(admin.listTopics().names()).contains(topic));
        equal("UnknownTopicOrPartitionException",
            refusal(admin.describeTopics(List.of(topic)).allTopicNames()));
        equal("UnknownTopicOrPartitionException", refusal(admin.deleteTopics(List.of(topic)).all()));
    }

    static void refusals() throws Exception {
        String there = makeTopic(1);
        short one = 1;
        equal("TopicExistsException", created(new NewTopic(there, 1, one)));
        equal("InvalidTopicException", created(new NewTopic("no spaces", 1, one)));
        equal("InvalidReplicationFactorException", created(new NewTopic(unique("x"), 1, (short) 5)));
        equal("InvalidPartitionsException", created(new NewTopic(unique("x"), 0, one)));
        equal("InvalidConfigurationException",
            created(new NewTopic(unique("x"), 1, one).configs(Map.of("no.such", "1"))));
        equal("InvalidConfigurationException",
            created(new NewTopic(unique("x"), 1, one).configs(Map.of("segment.bytes", "few"))));
        equal("InvalidReplicaAssignmentException", created(new NewTopic(unique("x"), Map.of(0, List.of(77)))));
    }

    static String created(NewTopic topic) throws Exception {
        return refusal(admin.createTopics(List.of(topic)).all());
    }

    static Config configs(ConfigResource resource) throws Exception {
        var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        return get(admin.describeConfigs(List.of(resource), options).all()).get(resource);
    }

    static ConfigResource topicResource(String topic) {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    static void topicConfigs() throws Exception {
        String topic = makeTopic(1, Map.of("retention.ms", "1000000"));
        Config config = configs(topicResource(topic));
        ConfigEntry retention = config.get("retention.ms");
        equal("1000000", retention.value());
        equal(ConfigEntry.ConfigType.LONG, retention.type());
        equal(false, retention.isReadOnly());
        equal(false, retention.isSensitive());
        holds(retention.documentation() != null && retention.documentation().length() > 20, "it is documented");
        equal("retention.ms", retention.synonyms().get(0).name());
        equal(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, retention.synonyms().get(0).source());
        ConfigEntry last = config.get("max.message.bytes");
        equal("1048588", last.value());
        equal(ConfigEntry.ConfigType.INT, last.type());
        equal("message.max.bytes", last.synonyms().get(0).name());
        for (String name : Set.of("cleanup.policy", "compression.type", "delete.retention.ms",
                "file.delete.delay.ms", "flush.messages", "flush.ms", "index.interval.bytes",
                "message.timestamp.type", "min.cleanable.dirty.ratio", "min.compaction.lag.ms",
                "min.insync.replicas", "preallocate", "retention.bytes", "segment.bytes",
                "segment.index.bytes", "segment.jitter.ms", "segment.ms", "unclean.leader.election.enable")) {
            holds(config.get(name) != null, name + " is missing");
            holds(config.get(name).value() != null, name + " has no value");
            holds(config.get(name).type() != ConfigEntry.ConfigType.UNKNOWN, name + " has no type");
        }
    }

    static void brokerConfigs() throws Exception {
        String id = get(admin.describeCluster().nodes()).iterator().next().idString();
        Config config = configs(new ConfigResource(ConfigResource.Type.BROKER, id));
        equal("2", config.get("num.partitions").value());
        equal(ConfigEntry.ConfigSource.STATIC_BROKER_CONFIG, config.get("num.partitions").source());
        equal(true, config.get("log.dirs").isReadOnly());
        equal(false, config.get("log.retention.ms").isReadOnly());
        equal(ConfigEntry.ConfigSource.DEFAULT_CONFIG, config.get("log.segment.bytes").source());
        Config cluster = configs(new ConfigResource(ConfigResource.Type.BROKER, ""));
        holds(cluster.entries() != null, "the cluster's own defaults are answered");
    }

    static void alter(ConfigResource resource, String name, String value, AlterConfigOp.OpType how)
            throws Exception {
        var operation = new AlterConfigOp(new ConfigEntry(name, value), how);
        get(admin.incrementalAlterConfigs(Map.of(resource, List.of(operation))).all());
    }

    static void incrementalAlter() throws Exception {
        ConfigResource topic = topicResource(makeTopic(1));
        alter(topic, "segment.bytes", "1048576", AlterConfigOp.OpType.SET);
        until("set", () -> configs(topic).get("segment.bytes").value().equals("1048576"));
        alter(topic, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND);
        until("appended", () -> configs(topic).get("cleanup.policy").value().equals("delete,compact"));
        alter(topic, "cleanup.policy", "delete", AlterConfigOp.OpType.SUBTRACT);
        until("subtracted", () -> configs(topic).get("cleanup.policy").value().equals("compact"));
        alter(topic, "segment.bytes", "", AlterConfigOp.OpType.DELETE);
        until("deleted", () -> configs(topic).get("segment.bytes").isDefault());
        var wrong = new AlterConfigOp(new ConfigEntry("no.such", "1"), AlterConfigOp.OpType.SET);
        equal("InvalidConfigurationException",
            refusal(admin.incrementalAlterConfigs(Map.of(topic, List.of(wrong))).all()));
    }

    static void brokerAlter() throws Exception {
        String id = get(admin.describeCluster().nodes()).iterator().next().idString();
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, id);
        alter(broker, "log.cleaner.threads", "2", AlterConfigOp.OpType.SET);
        until("set", () -> configs(broker).get("log.cleaner.threads").value().equals("2"));
        equal(ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG, configs(broker).get("log.cleaner.threads").source());
        alter(broker, "log.cleaner.threads", "", AlterConfigOp.OpType.DELETE);
        until("deleted", () -> configs(broker).get("log.cleaner.threads").value().equals("1"));
        var fixed = new AlterConfigOp(new ConfigEntry("log.dirs", "elsewhere"), AlterConfigOp.OpType.SET);
        equal("InvalidRequestException", refusal(admin.incrementalAlterConfigs(Map.of(broker, List.of(fixed))).all()));
    }
}
