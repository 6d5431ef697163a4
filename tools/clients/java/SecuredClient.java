import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The official Java client with the security settings of properties files. usage: java
 * SecuredClient file.properties ... Admin, producer and consumer use each of them in turn; prints
 * one TAP line for each file. tests/compat/test_secured_clients.py reads them.
 */
public class SecuredClient {
    static final long PATIENCE_S = 60;

    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Path path = Path.of(file);
            String name = path.getFileName().toString().replace(".properties", "");
            try {
                roundTrip(path, "java-" + name);
                System.out.println("ok " + name);
            } catch (Throwable problem) {
                StringWriter text = new StringWriter();
                problem.printStackTrace(new PrintWriter(text));
                System.out.println("not ok " + name);
                System.out.println("# " + text.toString().replace("\n", "\n# "));
            }
        }
        System.exit(0);
    }

    static void roundTrip(Path file, String topic) throws Exception {
        Properties settings = new Properties();
        try (var reader = Files.newBufferedReader(file)) {
            settings.load(reader);
        }
        try (Admin admin = Admin.create(settings)) {
            NewTopic wanted = new NewTopic(topic, Optional.of(1), Optional.empty());
            admin.createTopics(List.of(wanted)).all().get(PATIENCE_S, TimeUnit.SECONDS);
        }
        List<String> sent = new ArrayList<>();
        StringSerializer writer = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, writer, writer)) {
            for (int number = 0; number < 20; number++) {
                sent.add("value " + number);
                producer.send(new ProducerRecord<>(topic, "value " + number));
            }
        }
        List<String> got = new ArrayList<>();
        StringDeserializer reader = new StringDeserializer();
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, reader, reader)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
            while (got.size() < sent.size() && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    got.add(record.value());
                }
            }
        }
        if (!got.equals(sent)) {
            throw new AssertionError("sent " + sent + ", got " + got);
        }
    }
}
