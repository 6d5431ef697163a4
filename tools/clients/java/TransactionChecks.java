import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.FenceProducersOptions;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;

/** KafkaProducer's transactions; the Java client speaks the second protocol of KIP-890. */
final class TransactionChecks extends Checks {
    static final Map<String, Object> COMMITTED = Map.of("isolation.level", "read_committed");

    static void all() {
        check("transactions: the broker has transaction.version 2", () -> {
            var levels = get(admin.describeFeatures().featureMetadata()).finalizedFeatures();
            equal((short) 2, levels.get("transaction.version").maxVersionLevel());
        });
        check("transactions: commit, abort, commit", TransactionChecks::commitAndAbort);
        check("transactions: a hundred in a row", TransactionChecks::many);
        check("transactions: a zombie is fenced", TransactionChecks::zombie);
        check("transactions: offsets go with the transaction", () -> offsets("classic"));
        check("transactions: offsets of a group of the new protocol", () -> offsets("consumer"));
        check("transactions: they are listed and described", TransactionChecks::listed);
        check("transactions: an administrator fences a producer", TransactionChecks::fenced);
    }

    static KafkaProducer<String, String> transactional(String name) {
        KafkaProducer<String, String> producer = producer(Map.of("transactional.id", name));
        producer.initTransactions();
        return producer;
    }

    static List<String> values(String topic, int count) throws Exception {
        List<String> values = new ArrayList<>();
        for (var record : read(topic, count, COMMITTED)) values.add(record.value());
        return values;
    }

    static void commitAndAbort() throws Exception {
        String topic = makeTopic(1);
        try (var producer = transactional(unique("java-txn"))) {
            for (String value : List.of("a", "dropped", "b")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, value)).get(PATIENCE_MS, TimeUnit.MILLISECONDS);
                if (value.equals("dropped")) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
        equal(List.of("a", "b"), values(topic, 2));
        equal(3, read(topic, 3, Map.of()).size());
    }

    static void many() throws Exception {
        String topic = makeTopic(3);
        List<String> expected = new ArrayList<>();
        try (var producer = transactional(unique("java-txn"))) {
            for (int number = 0; number < 100; number++) {
                producer.beginTransaction();
                for (int partition = 0; partition < 3; partition++) {
                    producer.send(new ProducerRecord<>(topic, partition, null, number + "/" + partition));
                }
                // KafkaProducer may send EndTxn before these records: docs/compatibility.md
                producer.flush();
                if (number % 5 == 4) {
                    producer.abortTransaction();
                    continue;
                }
                producer.commitTransaction();
                for (int partition = 0; partition < 3; partition++) expected.add(number + "/" + partition);
            }
        }
        List<String> found = new ArrayList<>(values(topic, 240));
        found.sort(null);
        expected.sort(null);
        equal(expected, found);
    }

    static void zombie() throws Exception {
        String topic = makeTopic(1), name = unique("java-txn");
        try (var first = transactional(name)) {
            first.beginTransaction();
            first.send(new ProducerRecord<>(topic, "left behind")).get(PATIENCE_MS, TimeUnit.MILLISECONDS);
            try (var second = transactional(name)) {
                second.beginTransaction();
                second.send(new ProducerRecord<>(topic, "new"));
                second.commitTransaction();
            }
            try {
                first.commitTransaction();
                throw new AssertionError("the zombie committed");
            } catch (ProducerFencedException expected) {
                holds(expected.getMessage() != null, "it says why");
            }
        }
        equal(List.of("new"), values(topic, 1));
    }

    static void offsets(String protocol) throws Exception {
        String source = makeTopic(1), target = makeTopic(1), group = unique("java-group");
        send(source, 10, Map.of());
        TopicPartition place = new TopicPartition(source, 0);
        Map<String, Object> settings = Map.of("group.id", group, "group.protocol", protocol,
            "isolation.level", "read_committed", "max.poll.records", 3);
        try (var producer = transactional(unique("java-txn")); var consumer = consumer(settings)) {
            consumer.subscribe(List.of(source));
            for (boolean commit : new boolean[] {true, false}) {
                producer.beginTransaction();
                var records = take(consumer, 3);
                for (var record : records) producer.send(new ProducerRecord<>(target, record.value()));
                long after = records.get(2).offset() + 1;
                producer.sendOffsetsToTransaction(Map.of(place, new OffsetAndMetadata(after)), consumer.groupMetadata());
                if (commit) producer.commitTransaction();
                else producer.abortTransaction();
            }
            equal(3L, consumer.committed(java.util.Set.of(place)).get(place).offset());
        }
        equal(List.of("value 0", "value 1", "value 2"), values(target, 3));
    }

    static void listed() throws Exception {
        String topic = makeTopic(1), name = unique("java-txn");
        try (var producer = transactional(name)) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "open")).get(PATIENCE_MS, TimeUnit.MILLISECONDS);
            TransactionListing listing = get(admin.listTransactions().all()).stream()
                .filter(one -> one.transactionalId().equals(name)).findFirst().get();
            equal(TransactionState.ONGOING, listing.state());
            TransactionDescription found = get(admin.describeTransactions(List.of(name)).description(name));
            equal(java.util.Set.of(new TopicPartition(topic, 0)), found.topicPartitions());
            equal(listing.producerId(), found.producerId());
            var states = get(admin.describeProducers(List.of(new TopicPartition(topic, 0)))
                .partitionResult(new TopicPartition(topic, 0))).activeProducers();
            equal(found.producerId(), states.get(0).producerId());
            equal(0L, states.get(0).currentTransactionStartOffset().getAsLong());
            producer.commitTransaction();
            until("it is complete", () ->
                get(admin.describeTransactions(List.of(name)).description(name)).state()
                    == TransactionState.COMPLETE_COMMIT);
        }
    }

    static void fenced() throws Exception {
        String topic = makeTopic(1), name = unique("java-txn");
        try (var producer = transactional(name)) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "open")).get(PATIENCE_MS, TimeUnit.MILLISECONDS);
            get(admin.fenceProducers(List.of(name), new FenceProducersOptions()).all());
            try {
                producer.commitTransaction();
                throw new AssertionError("the fenced producer committed");
            } catch (KafkaException expected) {
                holds(expected.getMessage() != null, "it says why");
            }
        }
    }
}
