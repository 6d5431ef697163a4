import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Kafka Streams' own TopologyTestDriver, asked line by line. "~" is null. Its argument is a
 * directory for the stores.
 *
 *   describe NAME                     the topology's description
 *   open NAME [cached]                a new driver for this topology, without caches or with
 *   TOPIC KEY VALUE TIMESTAMP         a record; the output is printed as KEY VALUE TIMESTAMP
 *
 * Each answer ends with a line that is a full stop.
 */
public final class Transcripts {
    private static String directory;
    private static TopologyTestDriver driver;
    private static TestOutputTopic<String, String> out;

    public static void main(String[] arguments) throws Exception {
        directory = arguments[0];
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("describe")) {
                answers.print(topology(words[1]).describe());
            } else if (words[0].equals("open")) {
                open(words[1], words.length > 2);
            } else {
                pipe(words[0], text(words[1]), text(words[2]), Long.parseLong(words[3]));
                for (TestRecord<String, String> record : out.readRecordsToList()) {
                    answers.println(written(record.key()) + " " + written(record.value()) + " "
                        + record.timestamp());
                }
            }
            answers.println(".");
            answers.flush();
        }
        close();
    }

    private static Topology topology(String name) {
        StreamsBuilder builder = new StreamsBuilder();
        Map<String, Consumer<StreamsBuilder>> all = new HashMap<>(WindowTopologies.ALL);
        all.putAll(StreamTopologies.ALL);
        all.get(name).accept(builder);
        return builder.build();
    }

    private static void open(String name, boolean cached) {
        close();
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:9092");
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, cached ? 1_000_000 : 0);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory);
        // Kafka looks for closed windows once a second of the wall clock; here at every record.
        config.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
        config.put(
            StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX,
            0L);
        driver = new TopologyTestDriver(topology(name), config, Instant.EPOCH);
        out = driver.createOutputTopic("out", new StringDeserializer(), new StringDeserializer());
    }

    private static void pipe(String topic, String key, String value, long timestamp) {
        driver.createInputTopic(topic, new StringSerializer(), new StringSerializer())
            .pipeInput(key, value, timestamp);
    }

    private static void close() {
        if (driver != null) {
            driver.close();
        }
    }

    private static String text(String word) { return word.equals("~") ? null : word; }

    private static String written(String text) {
        return text == null ? "~" : text.replace(' ', '_');
    }
}
