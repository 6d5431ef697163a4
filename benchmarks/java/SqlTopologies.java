import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The statements of benchmarks/rows/statements.py, step by step as ksqlDB plans them: every source
 * puts key and columns into one row, joins prefix the columns of their sides, and each statement
 * ends with a projection.
 */
final class SqlTopologies {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long WINDOW_MS = 60_000;
    private static final Duration GRACE = Duration.ofDays(1);

    private SqlTopologies() {}

    static void build(
            String job,
            StreamsBuilder builder,
            KStream<String, ObjectNode> read,
            Serde<ObjectNode> json) {
        KStream<String, ObjectNode> orders = read.mapValues(SqlTopologies::withKey);
        Consumed<String, ObjectNode> consumed = Consumed.with(Serdes.String(), json);
        Produced<String, ObjectNode> written = Produced.with(Serdes.String(), json);
        switch (job) {
            case "sql filter" -> orders
                .filter((key, order) -> order.get("v").asInt() >= 0)
                .mapValues(order -> {
                    ObjectNode row = JSON.createObjectNode();
                    row.put("V", order.get("v").asInt() + 1);
                    row.set("ITEM", order.get("item"));
                    return row;
                })
                .to("results", written);
            case "sql count" -> orders
                .mapValues(SqlTopologies::keyOnly)
                .groupByKey(Grouped.with(Serdes.String(), json))
                .aggregate(SqlTopologies::none, SqlTopologies::plusOne,
                    Materialized.<String, ObjectNode, KeyValueStore<Bytes, byte[]>>as("counts")
                        .withKeySerde(Serdes.String()).withValueSerde(json))
                .mapValues(SqlTopologies::counted)
                .toStream()
                .to("results", written);
            case "sql windowed count" -> orders
                .mapValues(SqlTopologies::keyOnly)
                .groupByKey(Grouped.with(Serdes.String(), json))
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(WINDOW_MS), GRACE))
                .aggregate(SqlTopologies::none, SqlTopologies::plusOne,
                    Materialized.<String, ObjectNode, WindowStore<Bytes, byte[]>>as("counts")
                        .withKeySerde(Serdes.String()).withValueSerde(json))
                .mapValues(SqlTopologies::counted)
                .toStream()
                .to("results", Produced.with(
                    WindowedSerdes.timeWindowedSerdeFrom(String.class, WINDOW_MS), json));
            case "sql table join" -> {
                KTable<String, ObjectNode> customers = builder
                    .table("customers", consumed)
                    .mapValues(SqlTopologies::withKey)
                    .mapValues(row -> prefixed("C_", row));
                orders
                    .mapValues(row -> prefixed("O_", row))
                    .join(customers, SqlTopologies::both, Joined.with(Serdes.String(), json, json))
                    .mapValues(row -> {
                        ObjectNode made = JSON.createObjectNode();
                        made.set("V", row.get("O_v"));
                        made.set("NAME", row.get("C_name"));
                        return made;
                    })
                    .to("results", written);
            }
            case "sql stream join" -> {
                KStream<String, ObjectNode> payments = builder
                    .stream("payments", consumed)
                    .mapValues(SqlTopologies::withKey)
                    .mapValues(row -> prefixed("P_", row));
                orders
                    .mapValues(row -> prefixed("O_", row))
                    .join(payments, SqlTopologies::both,
                        JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(WINDOW_MS), GRACE),
                        StreamJoined.with(Serdes.String(), json, json))
                    .mapValues(row -> {
                        ObjectNode made = JSON.createObjectNode();
                        made.set("V", row.get("O_v"));
                        made.set("PAID", row.get("P_paid"));
                        return made;
                    })
                    .to("results", written);
            }
            default -> throw new IllegalArgumentException("there is no statement " + job);
        }
    }

    private static ObjectNode withKey(String key, ObjectNode value) {
        return value == null ? null : value.deepCopy().put("ID", key);
    }

    private static ObjectNode keyOnly(ObjectNode row) {
        ObjectNode made = JSON.createObjectNode();
        made.set("ID", row.get("ID"));
        return made;
    }

    private static ObjectNode prefixed(String prefix, ObjectNode row) {
        if (row == null) {
            return null;
        }
        ObjectNode made = JSON.createObjectNode();
        row.properties().forEach(field -> made.set(prefix + field.getKey(), field.getValue()));
        return made;
    }

    private static ObjectNode both(ObjectNode left, ObjectNode right) {
        ObjectNode made = left.deepCopy();
        made.setAll(right);
        return made;
    }

    private static ObjectNode none() {
        return JSON.createObjectNode();
    }

    private static ObjectNode plusOne(String key, ObjectNode row, ObjectNode total) {
        ObjectNode made = JSON.createObjectNode();
        made.set("ID", row.get("ID"));
        made.put("COUNT", total.path("COUNT").asLong(0) + 1);
        return made;
    }

    private static ObjectNode counted(ObjectNode total) {
        return JSON.createObjectNode().put("N", total.get("COUNT").asLong());
    }
}
