import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/** KafkaConsumer with group.protocol=consumer (KIP-848). */
final class GroupProtocolChecks extends Checks {
    static void all() {
        check("consumer protocol: members share and hand over (uniform)", () -> share("uniform"));
        check("consumer protocol: members share and hand over (range)", () -> share("range"));
        check("consumer protocol: commit and go on", GroupProtocolChecks::commits);
        check("consumer protocol: a pattern that the broker resolves (RE2)", GroupProtocolChecks::pattern);
        check("consumer protocol: a static member comes back", GroupProtocolChecks::staticMember);
        check("consumer protocol: classic members move over", GroupProtocolChecks::migration);
    }

    /** A member that polls on a separate thread. */
    static final class Member implements ConsumerRebalanceListener, AutoCloseable {
        final Set<TopicPartition> owned = ConcurrentHashMap.newKeySet();
        final Set<String> values = ConcurrentHashMap.newKeySet();
        final KafkaConsumer<String, String> consumer;
        final Thread thread;
        volatile Throwable failure;

        Member(String topic, String group, Map<String, Object> settings) {
            Map<String, Object> all = new java.util.HashMap<>(Map.of("group.id", group, "group.protocol", "consumer"));
            all.putAll(settings);
            consumer = consumer(all);
            consumer.subscribe(List.of(topic), this);
            thread = new Thread(this::poll);
            thread.start();
        }

        void poll() {
            try (consumer) {
                while (true) {
                    consumer.poll(Duration.ofMillis(200)).forEach(record -> values.add(record.value()));
                }
            } catch (WakeupException closed) {
                owned.clear();
            } catch (Throwable problem) {
                failure = problem;
            }
        }

        @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            owned.addAll(partitions);
        }

        @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            owned.removeAll(partitions);
        }

        @Override public void close() throws InterruptedException {
            consumer.wakeup();
            thread.join(PATIENCE_MS);
        }
    }

    static boolean spread(List<Member> members, int count) throws Exception {
        Set<TopicPartition> all = new HashSet<>();
        int sum = 0;
        for (Member member : members) {
            if (member.failure != null) throw new AssertionError(member.failure);
            if (member.owned.isEmpty()) return false;
            sum += member.owned.size();
            all.addAll(member.owned);
        }
        return sum == count && all.size() == count;
    }

    static ConsumerGroupDescription describe(String group) throws Exception {
        return get(admin.describeConsumerGroups(List.of(group)).describedGroups().get(group));
    }

    static void share(String assignor) throws Exception {
        String topic = makeTopic(6), group = unique("java-848");
        List<Member> members = new ArrayList<>();
        try {
            for (int number = 1; number <= 3; number++) {
                members.add(new Member(topic, group, Map.of("group.remote.assignor", assignor)));
                until(number + " members share", () -> spread(members, 6));
            }
            send(topic, 100, Map.of());
            until("all is read", () -> {
                Set<String> seen = new HashSet<>();
                members.forEach(member -> seen.addAll(member.values));
                return seen.size() == 100;
            });
            until("the broker has heard of it, too", () -> describe(group).groupState() == GroupState.STABLE);
            ConsumerGroupDescription described = describe(group);
            equal(GroupType.CONSUMER, described.type());
            equal(assignor, described.partitionAssignor());
            equal(3, described.members().size());
            members.remove(0).close();
            until("two members share", () -> spread(members, 6));
        } finally {
            for (Member member : members) member.close();
        }
    }

    static void commits() throws Exception {
        String topic = makeTopic(1), group = unique("java-848");
        send(topic, 10, Map.of());
        Map<String, Object> settings = Map.of("group.id", group, "group.protocol", "consumer", "max.poll.records", 4);
        TopicPartition place = new TopicPartition(topic, 0);
        try (var consumer = consumer(settings)) {
            consumer.subscribe(List.of(topic));
            take(consumer, 4);
            consumer.commitSync();
            equal(4L, consumer.committed(Set.of(place)).get(place).offset());
        }
        try (var consumer = consumer(settings)) {
            consumer.subscribe(List.of(topic));
            equal(4L, take(consumer, 4).get(0).offset());
            consumer.commitSync(Map.of(place, new OffsetAndMetadata(5, "note")));
        }
        equal(5L, get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).get(place).offset());
    }

    static void pattern() throws Exception {
        String topic = makeTopic(2);
        send(topic, 4, Map.of());
        Map<String, Object> settings = Map.of("group.id", unique("java-848"), "group.protocol", "consumer");
        try (var consumer = consumer(settings)) {
            consumer.subscribe(new SubscriptionPattern("x?" + topic.substring(0, topic.length() - 1) + "."));
            equal(4, take(consumer, 4).size());
            equal(partitions(topic, 2), consumer.assignment());
        }
    }

    static void staticMember() throws Exception {
        String topic = makeTopic(2), group = unique("java-848");
        Map<String, Object> settings = Map.of("group.instance.id", "rock");
        for (int round = 0; round < 2; round++) {
            try (Member member = new Member(topic, group, settings)) {
                until("it has its partitions", () -> spread(List.of(member), 2));
            }
        }
    }

    static void migration() throws Exception {
        String topic = makeTopic(4), group = unique("java-848");
        Map<String, Object> classic = Map.of("group.protocol", "classic", "heartbeat.interval.ms", 300,
            "partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
        List<Member> members = new ArrayList<>();
        try {
            members.add(new Member(topic, group, classic));
            until("a classic member has all", () -> spread(members, 4));
            members.add(new Member(topic, group, Map.of()));
            until("a classic and a new member share", () -> spread(members, 4));
            equal(GroupType.CONSUMER, describe(group).type());
            members.remove(0).close();
            until("the new member has all", () -> spread(members, 4));
        } finally {
            for (Member member : members) member.close();
        }
    }
}
