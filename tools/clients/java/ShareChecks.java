import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/** KafkaShareConsumer (KIP-932), mostly with explicit acknowledgement. */
final class ShareChecks extends Checks {
    static void all() {
        check("share: accepted records do not come again", ShareChecks::accept);
        check("share: released records come again, and are counted", ShareChecks::release);
        check("share: rejected records are gone", ShareChecks::reject);
        check("share: two members share a partition", ShareChecks::twoMembers);
        check("share: implicit acknowledgement", ShareChecks::implicit);
        check("share: the group is described, and its offsets", ShareChecks::described);
        check("share: rejected records become dead letters", ShareChecks::deadLetters);
        check("share: a delayed record comes when it is due", ShareChecks::delayed);
    }

    static String group() throws Exception {
        String group = unique("java-share");
        get(configure(group, "share.auto.offset.reset", "earliest"));
        return group;
    }

    static KafkaFuture<Void> configure(String group, String name, String value) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        Collection<AlterConfigOp> wish =
            List.of(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET));
        return admin.incrementalAlterConfigs(Map.of(resource, wish)).all();
    }

    static KafkaShareConsumer<String, String> join(String topic, String group, String mode) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", group,
            "share.acknowledgement.mode", mode));
        var consumer = new KafkaShareConsumer<>(all, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    /** The next `count` records, each acknowledged like this. */
    static List<ConsumerRecord<String, String>> drain(
            KafkaShareConsumer<String, String> consumer, int count, AcknowledgeType type) throws Exception {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        until(count + " records", () -> {
            for (var record : consumer.poll(Duration.ofMillis(300))) {
                records.add(record);
                consumer.acknowledge(record, type);
            }
            for (Optional<?> problem : consumer.commitSync().values()) holds(problem.isEmpty(), "" + problem);
            return records.size() >= count;
        });
        equal(count, records.size());
        return records;
    }

    static void nothingComes(KafkaShareConsumer<String, String> consumer) {
        for (int i = 0; i < 4; i++) equal(0, consumer.poll(Duration.ofMillis(300)).count());
    }

    static void accept() throws Exception {
        String topic = makeTopic(2);
        send(topic, 50, Map.of());
        try (var consumer = join(topic, group(), "explicit")) {
            drain(consumer, 50, AcknowledgeType.ACCEPT);
            nothingComes(consumer);
        }
    }

    static void release() throws Exception {
        String topic = makeTopic(1);
        send(topic, 3, Map.of());
        try (var consumer = join(topic, group(), "explicit")) {
            for (int attempt = 1; attempt <= 2; attempt++) {
                for (var record : drain(consumer, 3, AcknowledgeType.RELEASE)) {
                    equal((short) attempt, record.deliveryCount().get());
                }
            }
            drain(consumer, 3, AcknowledgeType.ACCEPT);
            nothingComes(consumer);
        }
    }

    static void reject() throws Exception {
        String topic = makeTopic(1);
        send(topic, 3, Map.of());
        try (var consumer = join(topic, group(), "explicit")) {
            drain(consumer, 3, AcknowledgeType.REJECT);
            nothingComes(consumer);
        }
    }

    static void twoMembers() throws Exception {
        String topic = makeTopic(1), group = group();
        try (var one = join(topic, group, "explicit"); var two = join(topic, group, "explicit");
                var producer = producer(Map.of())) {
            for (var consumer : List.of(one, two)) consumer.poll(Duration.ofMillis(500));
            Set<Long> seen = new TreeSet<>();
            int[] counts = {0, 0};
            for (int number = 0; number < 40; number++) producer.send(new ProducerRecord<>(topic, "v" + number)).get();
            until("all is read", () -> {
                int place = 0;
                for (var consumer : List.of(one, two)) {
                    for (var record : consumer.poll(Duration.ofMillis(200))) {
                        holds(seen.add(record.offset()), "offset " + record.offset() + " came twice");
                        counts[place]++;
                        consumer.acknowledge(record);
                    }
                    consumer.commitSync();
                    place++;
                }
                return seen.size() == 40;
            });
            equal(40, counts[0] + counts[1]);
        }
    }

    static void implicit() throws Exception {
        String topic = makeTopic(1);
        send(topic, 20, Map.of());
        try (var consumer = join(topic, group(), "implicit")) {
            List<String> values = new ArrayList<>();
            until("20 records", () -> {
                consumer.poll(Duration.ofMillis(300)).forEach(record -> values.add(record.value()));
                return values.size() >= 20;
            });
            consumer.commitSync();
            equal(20, values.size());
            nothingComes(consumer);
        }
    }

    static void described() throws Exception {
        String topic = makeTopic(1), group = group();
        send(topic, 5, Map.of());
        try (var consumer = join(topic, group, "explicit")) {
            drain(consumer, 5, AcknowledgeType.ACCEPT);
            var described = get(admin.describeShareGroups(List.of(group)).describedGroups().get(group));
            equal(GroupState.STABLE, described.groupState());
            equal(1, described.members().size());
            TopicPartition place = new TopicPartition(topic, 0);
            until("its place is kept", () -> {
                var offsets = get(admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec()))
                    .partitionsToOffsetInfo(group));
                return offsets.containsKey(place) && offsets.get(place) != null;
            });
        }
    }

    /** KIP-1191 came with Kafka 4.4 and share.version 2: what is older has nothing to check. */
    static void deadLetters() throws Exception {
        var features = get(admin.describeFeatures().featureMetadata()).finalizedFeatures();
        if (features.get("share.version").maxVersionLevel() < 2) return;
        String topic = makeTopic(1), group = group(), letters = unique("dlq.java");
        get(admin.createTopics(List.of(new NewTopic(letters, 1, (short) 1)
            .configs(Map.of("errors.deadletterqueue.group.enable", "true")))).all());
        get(configure(group, "errors.deadletterqueue.topic.name", letters));
        get(configure(group, "errors.deadletterqueue.copy.record.enable", "true"));
        send(topic, 3, Map.of());
        try (var consumer = join(topic, group, "explicit")) {
            drain(consumer, 3, AcknowledgeType.REJECT);
        }
        List<ConsumerRecord<String, String>> found = readAll(letters, 3);
        for (int i = 0; i < 3; i++) {
            equal("value " + i, found.get(i).value());
            equal("key" + i, found.get(i).key());
            equal(topic, header(found.get(i), "__dlq.errors.topic"));
            equal("0", header(found.get(i), "__dlq.errors.partition"));
            equal("" + i, header(found.get(i), "__dlq.errors.offset"));
            equal(group, header(found.get(i), "__dlq.errors.group"));
            equal("1", header(found.get(i), "__dlq.errors.delivery.count"));
            equal("Offset rejected by client.", header(found.get(i), "__dlq.errors.message"));
        }
    }

    static String header(ConsumerRecord<String, String> record, String name) {
        return new String(record.headers().lastHeader(name).value(), StandardCharsets.UTF_8);
    }

    static List<ConsumerRecord<String, String>> readAll(String topic, int count) throws Exception {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        Map<String, Object> all = Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            until(count + " records", () -> {
                consumer.poll(Duration.ofMillis(300)).forEach(found::add);
                return found.size() >= count;
            });
        }
        equal(count, found.size());
        return found;
    }

    /** Ottla's alone: other brokers do not know the config, and have nothing to check. */
    static void delayed() throws Exception {
        String topic = makeTopic(1), group = group();
        if (!refusal(configure(group, "ottla.share.delayed.delivery.enable", "true")).equals("none")) return;
        long due = System.currentTimeMillis() + 3_000;
        try (var producer = producer(Map.of()); var consumer = join(topic, group, "explicit")) {
            var late = new ProducerRecord<String, String>(topic, 0, null, "late");
            late.headers().add("ottla.deliver.at", Long.toString(due).getBytes(StandardCharsets.UTF_8));
            producer.send(late).get();
            producer.send(new ProducerRecord<>(topic, 0, null, "soon")).get();
            equal("soon", drain(consumer, 1, AcknowledgeType.ACCEPT).get(0).value());
            holds(System.currentTimeMillis() < due, "the other record waited, too");
            equal("late", drain(consumer, 1, AcknowledgeType.ACCEPT).get(0).value());
            holds(System.currentTimeMillis() >= due, "it came too early");
        }
    }
}
