// A Kafka Streams application of the new protocol (group.protocol=streams, KIP-1071).
//
//   StreamsGroupApp <word-count|join> <bootstrap> <application id> <state directory> [name=value]...
//
// Prints its states, its errors, and every two seconds the tasks of its threads; runs until it is
// killed, or until its standard input ends.

import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

public class StreamsGroupApp {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[1]);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[2]);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
        properties.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "200");
        properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        for (String setting : Arrays.asList(arguments).subList(4, arguments.length)) {
            String[] parts = setting.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        if (arguments[0].equals("word-count")) {
            wordCount(builder);
        } else {
            join(builder);
        }
        run(new KafkaStreams(builder.build(properties), properties));
    }

    /** Counts the words of `lines`, by a repartition topic and a store with its changelog. */
    private static void wordCount(StreamsBuilder builder) {
        builder.<String, String>stream("lines")
            .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.as("counts"))
            .toStream()
            .to("word-counts", Produced.with(Serdes.String(), Serdes.Long()));
    }

    /** Orders, rekeyed by customer, join the table of customers, and are counted. */
    private static void join(StreamsBuilder builder) {
        KTable<String, String> customers = builder.table("customers");
        KStream<String, String> joined = builder.<String, String>stream("orders")
            .map((order, customer) -> new org.apache.kafka.streams.KeyValue<>(customer, order))
            .join(customers, (order, name) -> order + " " + name);
        joined.to("named-orders");
        joined.groupByKey().count(Materialized.as("order-counts"))
            .toStream()
            .to("order-counts", Produced.with(Serdes.String(), Serdes.Long()));
    }

    private static void run(KafkaStreams streams) throws Exception {
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("error " + error + " because of " + error.getCause());
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        Thread teller = new Thread(() -> tell(streams));
        teller.setDaemon(true);
        teller.start();
        while (System.in.read() >= 0) {
            continue;
        }
        System.out.println("closed " + streams.close(Duration.ofSeconds(60)));
        System.exit(0);
    }

    private static void tell(KafkaStreams streams) {
        while (true) {
            String active = streams.metadataForLocalThreads().stream()
                .flatMap(thread -> thread.activeTasks().stream())
                .map(task -> task.taskId().toString()).sorted().collect(Collectors.joining(","));
            String standby = streams.metadataForLocalThreads().stream()
                .flatMap(thread -> thread.standbyTasks().stream())
                .map(task -> task.taskId().toString()).sorted().collect(Collectors.joining(","));
            System.out.println("tasks " + active + " standby " + standby);
            try {
                Thread.sleep(2000);
            } catch (InterruptedException error) {
                return;
            }
        }
    }
}
