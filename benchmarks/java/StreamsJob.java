import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.WindowStore;

/** The jobs of benchmarks/streams_job.py, for Kafka Streams: StreamsJob JOB SERVERS STATE_DIR THREADS. */
public final class StreamsJob {
    private static final long WINDOW_MS = 60_000;
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] words) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "bench");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, words[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, words[2]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, words[3]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        StreamsBuilder builder = new StreamsBuilder();
        build(builder, words[0]);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            System.err.flush();
            Runtime.getRuntime().halt(1);
            return null;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
        streams.start();
    }

    private static void build(StreamsBuilder builder, String job) {
        Serde<ObjectNode> json = json();
        Consumed<String, ObjectNode> read = Consumed.with(Serdes.String(), json);
        Produced<String, ObjectNode> written = Produced.with(Serdes.String(), json);
        KStream<String, ObjectNode> orders = builder.stream("orders", read);
        switch (job) {
            case "stateless" -> orders
                .filter((key, order) -> order.get("v").asLong() >= 0)
                .mapValues(order -> order.deepCopy().put("v", order.get("v").asLong() + 1))
                .to("results", written);
            case "windowed count" -> orders
                .groupByKey(Grouped.with(Serdes.String(), json))
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(WINDOW_MS)))
                .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts"))
                .toStream()
                .to("results", Produced.with(
                    WindowedSerdes.timeWindowedSerdeFrom(String.class, WINDOW_MS), Serdes.Long()));
            case "table join" -> {
                KTable<String, ObjectNode> customers = builder.table("customers", read);
                orders
                    .join(customers, StreamsJob::merged, Joined.with(Serdes.String(), json, json))
                    .to("results", written);
            }
            case "sql filter", "sql count", "sql windowed count", "sql table join", "sql stream join" ->
                SqlTopologies.build(job, builder, orders, json);
            default -> throw new IllegalArgumentException("there is no job " + job);
        }
    }

    private static ObjectNode merged(ObjectNode order, ObjectNode customer) {
        ObjectNode both = order.deepCopy();
        both.setAll(customer);
        return both;
    }

    private static Serde<ObjectNode> json() {
        return Serdes.serdeFrom(
            (topic, value) -> {
                try {
                    return value == null ? null : JSON.writeValueAsBytes(value);
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            },
            (topic, bytes) -> {
                try {
                    return bytes == null ? null : JSON.readValue(bytes, ObjectNode.class);
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            });
    }
}
