import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What the official Java client can do on one broker. usage: java Checks host:port [suite]
 * Prints one TAP line for each check; tests/compat/test_java_client.py reads them.
 */
public class Checks {
    static final long PATIENCE_MS = 60_000;

    interface Body {
        void run() throws Exception;
    }

    interface Condition {
        boolean met() throws Exception;
    }

    static String bootstrap;
    static Admin admin;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        try (Admin opened = Admin.create(Map.of("bootstrap.servers", bootstrap, "client.id", "checks"))) {
            admin = opened;
            ProducerChecks.all();
            ConsumerChecks.all();
            TopicChecks.all();
            AdminChecks.all();
            TransactionChecks.all();
            GroupProtocolChecks.all();
            ShareChecks.all();
        }
        System.exit(0);
    }

    static void check(String name, Body body) {
        long start = System.nanoTime();
        try {
            body.run();
            System.out.println("ok " + name + " # " + (System.nanoTime() - start) / 1_000_000 + " ms");
        } catch (Throwable problem) {
            System.out.println("not ok " + name);
            StringBuilder text = new StringBuilder();
            for (Throwable cause = problem; cause != null; cause = cause.getCause()) {
                text.append("# ").append(cause.toString().replace("\n", "\n# ")).append('\n');
                for (StackTraceElement frame : cause.getStackTrace()) {
                    if (frame.getClassName().contains("Checks")) text.append("#   at ").append(frame).append('\n');
                }
            }
            System.out.print(text);
        }
        System.out.flush();
    }

    static void equal(Object expected, Object actual) {
        if (!java.util.Objects.equals(expected, actual)) {
            throw new AssertionError("expected " + expected + " but was " + actual);
        }
    }

    static void holds(boolean condition, String what) {
        if (!condition) throw new AssertionError(what);
    }

    static void until(String what, Condition condition) throws Exception {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (!condition.met()) {
            if (System.currentTimeMillis() > deadline) throw new AssertionError("never: " + what);
            Thread.sleep(50);
        }
    }

    /** Waits for a call's result. */
    static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(PATIENCE_MS, TimeUnit.MILLISECONDS);
    }

    /** The simple name of the exception that a call ends with. */
    static String refusal(java.util.concurrent.Future<?> future) throws Exception {
        try {
            future.get(PATIENCE_MS, TimeUnit.MILLISECONDS);
            return "none";
        } catch (ExecutionException refused) {
            return refused.getCause().getClass().getSimpleName();
        }
    }

    static String refusal(KafkaFuture<?> future) throws Exception {
        return refusal(future.toCompletionStage().toCompletableFuture());
    }

    static String unique(String prefix) {
        return prefix + "-" + UUID.randomUUID().toString().substring(0, 10);
    }

    static String makeTopic(int partitions) throws Exception {
        return makeTopic(partitions, Map.of());
    }

    static String makeTopic(int partitions, Map<String, String> configs) throws Exception {
        String topic = unique("java");
        get(admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all());
        until("topic " + topic + " is there", () -> get(admin.listTopics().names()).contains(topic));
        return topic;
    }

    static KafkaProducer<String, String> producer(Map<String, Object> settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.putAll(settings);
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    static List<RecordMetadata> send(String topic, int count, Map<String, Object> settings) throws Exception {
        List<RecordMetadata> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = producer(settings)) {
            List<java.util.concurrent.Future<RecordMetadata>> futures = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                futures.add(producer.send(new ProducerRecord<>(topic, "key" + i, "value " + i)));
            }
            for (var future : futures) sent.add(future.get(PATIENCE_MS, TimeUnit.MILLISECONDS));
        }
        return sent;
    }

    static KafkaConsumer<String, String> consumer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>();
        all.put("bootstrap.servers", bootstrap);
        all.put("auto.offset.reset", "earliest");
        all.put("enable.auto.commit", "false");
        all.putAll(settings);
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    /** Exactly the next `count` records. */
    static List<ConsumerRecord<String, String>> take(KafkaConsumer<String, String> consumer, int count)
            throws Exception {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        until(count + " records", () -> {
            consumer.poll(Duration.ofMillis(200)).forEach(records::add);
            return records.size() >= count;
        });
        equal(count, records.size());
        return records;
    }

    static List<ConsumerRecord<String, String>> read(String topic, int count, Map<String, Object> settings)
            throws Exception {
        try (KafkaConsumer<String, String> consumer = consumer(settings)) {
            Collection<TopicPartition> all = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(p -> all.add(new TopicPartition(topic, p.partition())));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            return take(consumer, count);
        }
    }

    static Set<TopicPartition> partitions(String topic, int count) {
        Set<TopicPartition> all = new java.util.HashSet<>();
        for (int p = 0; p < count; p++) all.add(new TopicPartition(topic, p));
        return all;
    }
}
