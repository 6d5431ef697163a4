import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A source of the delivery tests on the Java client, which speaks transaction version 2 (KIP-890).
 *
 * <p>Several producers side by side, each with bursts of transactions and nothing between two of
 * them: a record to every partition, then commit, or abort before anything may have been sent. What
 * they do goes into a journal (tests/delivery/delivery_journal.py); arguments are name=value.
 */
final class DeliverySource extends Thread {
    static final int PRODUCERS = 6;
    static final int BURST = 8;
    static final double ABORTED_SHARE = 0.2;
    static final int FATAL_EXIT = 3;
    static final long REST_MS = 3000;

    static final Map<String, String> given = new HashMap<>();
    static FileChannel journal;
    static volatile boolean ending;

    final String name;
    final Random chance;
    int count;

    DeliverySource(int number) {
        name = given.get("slot") + "." + given.get("incarnation") + "." + number;
        chance = new Random((given.get("seed") + name).hashCode());
        setName(given.get("group") + "-" + given.get("slot") + "-" + number);
    }

    public static void main(String[] arguments) throws Exception {
        for (String one : arguments) {
            int at = one.indexOf('=');
            given.put(one.substring(0, at), one.substring(at + 1));
        }
        journal = FileChannel.open(
            Path.of(given.get("journal")), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        List<DeliverySource> sources = new ArrayList<>();
        for (int number = 0; number < PRODUCERS; number++) sources.add(new DeliverySource(number));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ending = true;
            for (DeliverySource source : sources) join(source);
        }));
        for (DeliverySource source : sources) source.start();
    }

    static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void run() {
        try (KafkaProducer<String, String> producer = producer()) {
            insist(producer::initTransactions);
            write("ready");
            while (!ending) {
                for (int each = 0; each < BURST && !ending; each++) transaction(producer);
                sleep(chance.nextLong(REST_MS));
            }
        } catch (KafkaException | InterruptedException error) {
            write("error", named(error), getName());
            Runtime.getRuntime().halt(FATAL_EXIT);
        }
    }

    KafkaProducer<String, String> producer() {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", given.get("bootstrap"));
        settings.put("transactional.id", getName());
        settings.put("transaction.timeout.ms", given.get("transaction_timeout_ms"));
        settings.put("request.timeout.ms", 8000);
        settings.put("max.block.ms", 20000);
        settings.put("reconnect.backoff.ms", 20);
        settings.put("reconnect.backoff.max.ms", 200);
        settings.put("retry.backoff.ms", 5);
        settings.put("retry.backoff.max.ms", 50);
        settings.put("linger.ms", 0);
        if (given.containsKey("user")) secure(settings);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    static void secure(Map<String, Object> settings) {
        settings.put("security.protocol", "SASL_SSL");
        settings.put("ssl.truststore.type", "PEM");
        settings.put("ssl.truststore.location", given.get("ca"));
        settings.put("sasl.mechanism", "SCRAM-SHA-256");
        settings.put("sasl.jaas.config", String.format(
            "org.apache.kafka.common.security.scram.ScramLoginModule required"
                + " username=\"%s\" password=\"%s\";",
            given.get("user"), given.get("password")));
    }

    void transaction(KafkaProducer<String, String> producer) {
        int records = Integer.parseInt(given.get("partitions"));
        String transaction = name + "-" + ++count;
        producer.beginTransaction();
        try {
            for (int number = 0; number < records; number++) send(producer, transaction, number, records);
            if (chance.nextDouble() < ABORTED_SHARE) {
                abort(producer, transaction);
                return;
            }
            // KafkaProducer may send EndTxn before these records: docs/compatibility.md
            producer.flush();
            write("committing", transaction);
            insist(producer::commitTransaction);
        } catch (ProducerFencedException error) {
            throw error;
        } catch (KafkaException error) {
            write("note", transaction + ": " + named(error));
            abort(producer, transaction);
            return;
        }
        write("committed", transaction);
    }

    void send(KafkaProducer<String, String> producer, String transaction, int number, int records) {
        String id = transaction + "." + number + "." + records;
        write("sent", id);
        producer.send(
            new ProducerRecord<>(given.get("input"), number, id, id),
            (stored, error) -> {
                if (error == null) acked(id, stored);
            });
    }

    void acked(String id, RecordMetadata stored) {
        line("[\"acked\", \"" + id + "\", \"" + stored.topic() + "\", " + stored.partition()
            + ", " + stored.offset() + "]");
    }

    void abort(KafkaProducer<String, String> producer, String transaction) {
        insist(producer::abortTransaction);
        write("aborted", transaction);
    }

    /** A call that took too long may be made again, and then goes on with the first one. */
    static void insist(Runnable call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException error) {
                write("note", error.toString());
            }
        }
    }

    /** What the broker said is often inside another exception. */
    static String named(Exception error) {
        Throwable cause = error.getCause() == null ? error : error.getCause();
        return cause.getClass().getSimpleName() + ": " + error.getMessage();
    }

    static void write(String... words) {
        StringBuilder text = new StringBuilder();
        for (String word : words) {
            String quoted = word.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ");
            text.append(text.length() == 0 ? "[\"" : ", \"").append(quoted).append('"');
        }
        line(text + "]");
    }

    static void line(String text) {
        try {
            journal.write(ByteBuffer.wrap((text + "\n").getBytes(StandardCharsets.UTF_8)));
        } catch (java.io.IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
