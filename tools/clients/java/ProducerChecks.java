import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;

/** KafkaProducer: idempotent by default, all codecs, acks, headers, timestamps, refusals. */
final class ProducerChecks extends Checks {
    static void all() {
        check("producer: codecs come back as they were sent", () -> {
            for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
                String topic = makeTopic(1);
                send(topic, 300, Map.of("compression.type", codec, "linger.ms", 20));
                List<ConsumerRecord<String, String>> got = read(topic, 300, Map.of("check.crcs", "true"));
                for (int i = 0; i < 300; i++) {
                    equal("value " + i, got.get(i).value());
                    equal((long) i, got.get(i).offset());
                }
            }
        });
        check("producer: acks 0, 1 and all", () -> {
            for (String acks : List.of("0", "1", "all")) {
                String topic = makeTopic(1);
                List<RecordMetadata> sent =
                    send(topic, 50, Map.of("acks", acks, "enable.idempotence", acks.equals("all")));
                if (!acks.equals("0")) equal(49L, sent.get(49).offset());
                equal(50, read(topic, 50, Map.of()).size());
            }
        });
        check("producer: idempotent by default keeps the order of many small batches", () -> {
            String topic = makeTopic(1);
            List<RecordMetadata> sent = send(topic, 3000, Map.of("batch.size", 200, "linger.ms", 0));
            for (int i = 0; i < 3000; i++) equal((long) i, sent.get(i).offset());
            List<ConsumerRecord<String, String>> got = read(topic, 3000, Map.of());
            for (int i = 0; i < 3000; i++) equal("value " + i, got.get(i).value());
        });
        check("producer: headers, null keys, tombstones, timestamps", ProducerChecks::shapes);
        check("producer: log append time", () -> {
            String topic = makeTopic(1, Map.of("message.timestamp.type", "LogAppendTime"));
            long before = System.currentTimeMillis() - 1000;
            RecordMetadata sent = send(topic, 1, Map.of()).get(0);
            holds(sent.timestamp() >= before, "the append time is reported");
            ConsumerRecord<String, String> got = read(topic, 1, Map.of()).get(0);
            equal(TimestampType.LOG_APPEND_TIME, got.timestampType());
            equal(sent.timestamp(), got.timestamp());
        });
        check("producer: unknown topic is created on first use", () -> {
            String topic = unique("java-auto");
            send(topic, 3, Map.of());
            equal(3, read(topic, 3, Map.of()).size());
        });
        check("producer: refusals", ProducerChecks::refusals);
        check("producer: large records", () -> {
            String topic = makeTopic(1, Map.of("max.message.bytes", "9000000"));
            Map<String, Object> settings =
                Map.of("max.request.size", 9_000_000, "buffer.memory", 64_000_000L);
            String large = "x".repeat(6_000_000);
            try (var producer = producer(settings)) {
                producer.send(new ProducerRecord<>(topic, large)).get(PATIENCE_MS, TimeUnit.MILLISECONDS);
            }
            equal(large, read(topic, 1, Map.of("max.partition.fetch.bytes", 1000)).get(0).value());
        });
        check("producer: several partitions at once", () -> {
            String topic = makeTopic(12);
            try (var producer = producer(Map.of("linger.ms", 10))) {
                List<Future<RecordMetadata>> futures = new ArrayList<>();
                for (int i = 0; i < 1200; i++) {
                    futures.add(producer.send(new ProducerRecord<>(topic, i % 12, null, "v" + i)));
                }
                for (int i = 0; i < 1200; i++) equal((long) (i / 12), futures.get(i).get().offset());
            }
            equal(1200, read(topic, 1200, Map.of()).size());
        });
    }

    static void shapes() throws Exception {
        String topic = makeTopic(1);
        try (var producer = producer(Map.of())) {
            var rich = new ProducerRecord<String, String>(topic, 0, 1_700_000_000_123L, null, "v");
            rich.headers().add(new RecordHeader("a", "1".getBytes(StandardCharsets.UTF_8)));
            rich.headers().add(new RecordHeader("a", null));
            producer.send(rich).get(PATIENCE_MS, TimeUnit.MILLISECONDS);
            producer.send(new ProducerRecord<>(topic, "k", null)).get(PATIENCE_MS, TimeUnit.MILLISECONDS);
        }
        List<ConsumerRecord<String, String>> got = read(topic, 2, Map.of());
        equal(null, got.get(0).key());
        equal(1_700_000_000_123L, got.get(0).timestamp());
        equal(TimestampType.CREATE_TIME, got.get(0).timestampType());
        var headers = got.get(0).headers().toArray();
        equal(2, headers.length);
        equal("1", new String(headers[0].value(), StandardCharsets.UTF_8));
        equal(null, headers[1].value());
        equal(null, got.get(1).value());
        holds(got.get(1).leaderEpoch().isPresent(), "the leader epoch is there");
    }

    static void refusals() throws Exception {
        String small = makeTopic(1, Map.of("max.message.bytes", "1000"));
        String compacted = makeTopic(1, Map.of("cleanup.policy", "compact"));
        try (var producer = producer(Map.of("retries", 0, "enable.idempotence", false, "max.block.ms", 5000))) {
            equal("RecordTooLargeException",
                refusal(producer.send(new ProducerRecord<>(small, "x".repeat(3000)))));
            equal("InvalidTopicException", refusal(producer.send(new ProducerRecord<>("no spaces", "v"))));
            equal("InvalidRecordException", refusal(producer.send(new ProducerRecord<>(compacted, "no key"))));
            equal("none", refusal(producer.send(new ProducerRecord<>(compacted, "k", "v"))));
            equal("none", refusal(producer.send(new ProducerRecord<>(small, "v"))));
        }
    }
}
