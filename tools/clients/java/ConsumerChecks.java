import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** KafkaConsumer with the classic group protocol. */
final class ConsumerChecks extends Checks {
    static void all() {
        check("consumer: assign, seek, position, pause", ConsumerChecks::seeking);
        check("consumer: offsets by time, beginning and end", ConsumerChecks::offsets);
        check("consumer: range members share and hand over", () -> members("RangeAssignor"));
        check("consumer: cooperative members share and hand over", () -> members("CooperativeStickyAssignor"));
        check("consumer: static member comes back", ConsumerChecks::staticMember);
        check("consumer: commit sync, async and committed", ConsumerChecks::commits);
        check("consumer: subscribe by pattern", ConsumerChecks::pattern);
        check("consumer: small fetch limits make progress", () -> {
            String topic = makeTopic(3);
            send(topic, 300, Map.of("batch.size", 500));
            Map<String, Object> limits = Map.of("fetch.max.bytes", 100, "max.partition.fetch.bytes", 100,
                "max.poll.records", 7);
            equal(300, read(topic, 300, limits).size());
        });
        check("consumer: fetch session with partitions that come and go", ConsumerChecks::session);
        check("consumer: topic list and partitions", () -> {
            String topic = makeTopic(4);
            try (var consumer = consumer(Map.of())) {
                holds(consumer.listTopics().containsKey(topic), "the topic is listed");
                equal(4, consumer.partitionsFor(topic).size());
            }
        });
    }

    static void seeking() throws Exception {
        String topic = makeTopic(1);
        send(topic, 100, Map.of("linger.ms", 20));
        TopicPartition partition = new TopicPartition(topic, 0);
        try (var consumer = consumer(Map.of("max.poll.records", 5))) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 40);
            equal(40L, take(consumer, 5).get(0).offset());
            equal(45L, consumer.position(partition));
            consumer.seekToEnd(List.of(partition));
            equal(100L, consumer.position(partition));
            consumer.seek(partition, new OffsetAndMetadata(98));
            equal(2, take(consumer, 2).size());
            consumer.seekToBeginning(List.of(partition));
            consumer.pause(List.of(partition));
            equal(0, consumer.poll(Duration.ofMillis(500)).count());
            consumer.resume(List.of(partition));
            equal(0L, take(consumer, 5).get(0).offset());
            equal(95L, consumer.currentLag(partition).getAsLong());
        }
    }

    static void offsets() throws Exception {
        String topic = makeTopic(1);
        long start = System.currentTimeMillis() - 100_000;
        try (var producer = producer(Map.of())) {
            for (int i = 0; i < 10; i++) {
                producer.send(new ProducerRecord<>(topic, 0, start + i * 1000, "k", "v")).get();
            }
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        try (var consumer = consumer(Map.of())) {
            var found = consumer.offsetsForTimes(Map.of(partition, start + 3500)).get(partition);
            equal(4L, found.offset());
            equal(start + 4000, found.timestamp());
            equal(null, consumer.offsetsForTimes(Map.of(partition, start + 99_000)).get(partition));
            equal(0L, consumer.beginningOffsets(List.of(partition)).get(partition));
            equal(10L, consumer.endOffsets(List.of(partition)).get(partition));
        }
    }

    static Map<String, Object> member(String group, String assignor) {
        return Map.of("group.id", group, "session.timeout.ms", 10000, "heartbeat.interval.ms", 300,
            "partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
    }

    static boolean spread(List<KafkaConsumer<String, String>> members, int count, Set<String> values) {
        Set<TopicPartition> owned = new HashSet<>();
        int total = 0;
        boolean everybody = true;
        for (var member : members) {
            member.poll(Duration.ofMillis(50)).forEach(record -> values.add(record.value()));
            everybody &= !member.assignment().isEmpty();
            total += member.assignment().size();
            owned.addAll(member.assignment());
        }
        return everybody && total == count && owned.size() == count;
    }

    static void members(String assignor) throws Exception {
        String topic = makeTopic(6);
        String group = unique("java-group");
        List<KafkaConsumer<String, String>> members = new ArrayList<>();
        Set<String> values = new HashSet<>();
        try {
            for (int i = 0; i < 3; i++) {
                var one = consumer(member(group, assignor));
                members.add(one);
                one.subscribe(List.of(topic));
                until(members.size() + " members share", () -> spread(members, 6, values));
            }
            send(topic, 200, Map.of());
            until("all is read", () -> spread(members, 6, values) && values.size() == 200);
            members.remove(2).close();
            until("two members share", () -> spread(members, 6, values));
        } finally {
            members.forEach(KafkaConsumer::close);
        }
    }

    static void staticMember() throws Exception {
        String topic = makeTopic(2);
        String group = unique("java-group");
        Map<String, Object> settings = Map.of("group.id", group, "group.instance.id", "one");
        send(topic, 10, Map.of());
        int generation;
        try (var consumer = consumer(settings)) {
            consumer.subscribe(List.of(topic));
            take(consumer, 10);
            consumer.commitSync();
            generation = consumer.groupMetadata().generationId();
        }
        try (var consumer = consumer(settings)) {
            consumer.subscribe(List.of(topic));
            until("it has its partitions", () -> {
                consumer.poll(Duration.ofMillis(100));
                return consumer.assignment().size() == 2;
            });
            equal(generation, consumer.groupMetadata().generationId());
        }
    }

    static void commits() throws Exception {
        String topic = makeTopic(2);
        String group = unique("java-group");
        TopicPartition first = new TopicPartition(topic, 0);
        TopicPartition second = new TopicPartition(topic, 1);
        try (var consumer = consumer(Map.of("group.id", group))) {
            consumer.assign(List.of(first, second));
            equal(null, consumer.committed(Set.of(first)).get(first));
            consumer.commitSync(Map.of(first, new OffsetAndMetadata(5, "note")));
            List<Object> outcomes = new ArrayList<>();
            consumer.commitAsync(Map.of(second, new OffsetAndMetadata(7)), (offsets, problem) ->
                outcomes.add(problem == null ? offsets.get(second).offset() : problem));
            until("the asynchronous commit is answered", () -> {
                consumer.poll(Duration.ofMillis(50));
                return !outcomes.isEmpty();
            });
            equal(7L, outcomes.get(0));
        }
        try (var consumer = consumer(Map.of("group.id", group))) {
            var committed = consumer.committed(Set.of(first, second));
            equal(5L, committed.get(first).offset());
            equal("note", committed.get(first).metadata());
            equal(7L, committed.get(second).offset());
        }
    }

    static void pattern() throws Exception {
        String prefix = unique("java-pattern");
        send(prefix + "-a", 1, Map.of());
        try (var consumer = consumer(Map.of("group.id", unique("java-group"), "metadata.max.age.ms", 500))) {
            consumer.subscribe(Pattern.compile(prefix + "-.*"));
            take(consumer, 1);
            consumer.commitSync();
            send(prefix + "-b", 1, Map.of());
            List<ConsumerRecord<String, String>> later = take(consumer, 1);
            equal(prefix + "-b", later.get(0).topic());
        }
    }

    static void session() throws Exception {
        String topic = makeTopic(4);
        try (var consumer = consumer(Map.of())) {
            for (int round = 0; round < 3; round++) {
                for (Set<TopicPartition> some : List.of(partitions(topic, 4), partitions(topic, 2))) {
                    consumer.assign(some);
                    consumer.seekToEnd(some);
                    for (TopicPartition one : some) consumer.position(one);
                    try (var producer = producer(Map.of())) {
                        for (TopicPartition one : some) {
                            producer.send(new ProducerRecord<>(topic, one.partition(), null, "r" + round)).get();
                        }
                    }
                    equal(some.size(), take(consumer, some.size()).size());
                }
            }
        }
    }
}
