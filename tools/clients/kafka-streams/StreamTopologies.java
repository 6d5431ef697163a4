import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** Those of tests/streams/stream_topologies.py, by the same names. Strings everywhere. */
final class StreamTopologies {
    static final Map<String, Consumer<StreamsBuilder>> ALL = new TreeMap<>();

    static {
        stateless();
        tables();
        aggregates();
        groupedTables();
        names();
        ALL.put("processor", StreamTopologies::processor);
    }

    private static void stateless() {
        ALL.put("filter", b -> out(left(b)
            .filter((k, v) -> v != null).filterNot((k, v) -> v.startsWith("z"))));
        ALL.put("map", b -> out(left(b).map((k, v) -> KeyValue.pair("" + v, "" + k))));
        ALL.put("flat-map", b -> out(left(b).flatMap((k, v) ->
            List.of(KeyValue.pair(k, v), KeyValue.pair("x", k)))));
        ALL.put("flat-map-values", b -> out(left(b).flatMapValues(v -> Arrays.asList(v, v, null))));
        ALL.put("select-key", b -> out(left(b).selectKey((k, v) -> v)));
        ALL.put("merge", b -> out(left(b)
            .mapValues(v -> v + "l").merge(right(b)).peek((k, v) -> { })));
        ALL.put("order", b -> {
            KStream<String, String> stream = left(b);
            stream.to("out");
            out(stream.mapValues(v -> v + "1"));
            out(stream.filter((k, v) -> true));
        });
        ALL.put("branch", b -> {
            Map<String, KStream<String, String>> branches = left(b).split(Named.as("by-"))
                .branch((k, v) -> k != null && k.equals("a"), Branched.as("a"))
                .branch((k, v) -> v != null,
                    Branched.withConsumer(s -> out(s.mapValues(v -> v + "!"))))
                .defaultBranch(Branched.withFunction(s -> s.mapValues(v -> "none"), "rest"));
            out(branches.get("by-a").mapValues(v -> "A" + v));
            out(branches.get("by-rest"));
        });
        ALL.put("repartition", b -> out(left(b).repartition()));
        ALL.put("repartition-named", b -> out(left(b).selectKey((k, v) -> v)
            .repartition(Repartitioned.<String, String>as("mine").withNumberOfPartitions(1))));
        ALL.put("same-topic", b -> {
            out(left(b).mapValues(v -> v + "1"));
            out(left(b).mapValues(v -> v + "2"));
        });
    }

    private static void tables() {
        ALL.put("table", b -> out(first(b).toStream()));
        ALL.put("table-store", b -> out(b.<String, String>table("left", as("kept")).toStream()));
        ALL.put("table-filter", b -> out(first(b).filter((k, v) -> v.startsWith("b")).toStream()));
        ALL.put("table-filter-store", b -> out(b.<String, String>table("left", as("kept"))
            .filter((k, v) -> v.startsWith("b")).toStream()));
        ALL.put("table-filter-own-store", b -> out(first(b)
            .filterNot((k, v) -> v.startsWith("b"), as("kept")).toStream()));
        ALL.put("table-map-values", b -> out(first(b).mapValues((k, v) -> k + v).toStream()));
        ALL.put("table-map-values-store", b -> out(first(b)
            .mapValues(v -> v.equals("z") ? null : v, as("kept")).toStream()));
        ALL.put("table-chain", b -> out(first(b).mapValues(v -> v + v)
            .filter((k, v) -> v.startsWith("b")).mapValues(v -> v.substring(1)).toStream()));
        ALL.put("to-table", b -> out(left(b).toTable().toStream()));
        ALL.put("to-table-rekeyed", b -> out(left(b).selectKey((k, v) -> v)
            .toTable(Materialized.with(Serdes.String(), Serdes.String())).toStream()));
        ALL.put("to-table-store", b -> out(left(b).toTable(as("kept"))
            .filter((k, v) -> v.startsWith("b")).toStream()));
    }

    private static void aggregates() {
        ALL.put("count", b -> out(left(b).groupByKey().count().toStream().mapValues(v -> "" + v)));
        ALL.put("count-store", b -> out(left(b).groupByKey()
            .count(Materialized.as("counts")).toStream().mapValues(v -> "" + v)));
        ALL.put("count-rekeyed", b -> out(left(b).groupBy((k, v) -> v).count().toStream()
            .mapValues(v -> "" + v)));
        ALL.put("reduce", b -> out(left(b).groupByKey()
            .reduce((x, y) -> y.equals("z") ? null : tail(x + y)).toStream()));
        ALL.put("aggregate", b -> out(left(b).groupByKey()
            .aggregate(() -> "0", (k, v, a) -> v.equals("z") ? null : tail(a + v), strings())
            .toStream()));
        ALL.put("two-counts", b -> {
            KStream<String, String> stream = left(b).selectKey((k, v) -> v);
            out(stream.groupByKey().count().toStream().mapValues(v -> "" + v));
            out(stream.groupByKey().reduce((x, y) -> tail(x + y)).toStream());
        });
        ALL.put("group-used-twice", b -> {
            KGroupedStream<String, String> grouped = left(b).groupBy((k, v) -> v, Grouped.as("g"));
            out(grouped.count().toStream().mapValues(v -> "" + v));
            out(grouped.reduce((x, y) -> tail(x + y)).toStream());
        });
        ALL.put("count-of-counts", b -> out(left(b).groupByKey().count().toStream()
            .map((k, v) -> KeyValue.pair("" + v, k)).groupByKey().count().toStream()
            .mapValues(v -> "" + v)));
        ALL.put("count-filtered", b -> out(left(b).groupByKey().count()
            .filter((k, v) -> v % 2 == 0).toStream().mapValues(v -> "" + v)));
    }

    private static void groupedTables() {
        ALL.put("table-count", b -> out(byValue(first(b)).count().toStream()
            .mapValues(v -> "" + v)));
        ALL.put("table-count-store", b -> out(byValue(first(b)).count(Materialized.as("counts"))
            .toStream().mapValues(v -> "" + v)));
        ALL.put("table-reduce", b -> out(byValue(first(b))
            .reduce((a, v) -> tail(a + "+" + v), (a, v) -> tail(a + "-" + v)).toStream()));
        ALL.put("table-aggregate", b -> out(byValue(first(b)).aggregate(() -> "0",
            (k, v, a) -> tail(a + "+" + v),
            (k, v, a) -> v.startsWith("z") ? null : tail(a + "-" + v),
            strings()).toStream()));
        ALL.put("table-of-count", b -> out(left(b).groupByKey().count()
            .groupBy((k, v) -> KeyValue.pair("" + v, k),
                Grouped.with(Serdes.String(), Serdes.String()))
            .count().toStream().mapValues(v -> "" + v)));
        ALL.put("table-of-filter", b -> out(byValue(first(b).filter((k, v) -> !v.startsWith("a")))
            .count().toStream().mapValues(v -> "" + v)));
        ALL.put("table-of-mapped", b -> out(byValue(first(b).mapValues(v -> v.substring(0, 1)))
            .count().toStream().mapValues(v -> "" + v)));
    }

    private static void names() {
        ALL.put("named", b -> {
            KStream<String, String> stream = b.stream("left", Consumed.as("lefts"));
            stream.filter((k, v) -> v != null, Named.as("present"))
                .mapValues(v -> v + v, Named.as("twice"))
                .groupBy((k, v) -> v, Grouped.as("by-value"))
                .count(Named.as("counted"), Materialized.as("counts"))
                .toStream(Named.as("changes")).mapValues(v -> "" + v)
                .to("out", Produced.as("written"));
            b.<String, String>table("right", Consumed.as("rights"))
                .filter((k, v) -> true, Named.as("all"))
                .groupBy((k, v) -> KeyValue.pair(v, v), Grouped.as("grouped"))
                .count(Named.as("table-counted")).toStream().mapValues(v -> "" + v).to("out");
        });
        ALL.put("global", b -> {
            b.globalTable("right");
            out(left(b));
        });
    }

    private static void processor(StreamsBuilder b) {
        b.addStateStore(Stores.keyValueStoreBuilder(
            Stores.inMemoryKeyValueStore("totals"), Serdes.String(), Serdes.String()));
        left(b).process(Totals::new, "totals").to("out");
    }

    /** Remembers what each key said, and tells it once in ten milliseconds of stream time. */
    private static final class Totals implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;
        private KeyValueStore<String, String> totals;

        @Override
        public void init(ProcessorContext<String, String> given) {
            context = given;
            totals = context.getStateStore("totals");
            context.schedule(Duration.ofMillis(10), PunctuationType.STREAM_TIME, this::tell);
        }

        @Override
        public void process(Record<String, String> record) {
            if (record.key() != null) {
                String before = totals.get(record.key());
                totals.put(record.key(), tail((before == null ? "" : before) + record.value()));
                context.forward(record.withValue("seen"));
            }
        }

        private void tell(long now) {
            totals.all().forEachRemaining(
                each -> context.forward(new Record<>(each.key, each.value, now)));
        }
    }

    private static KGroupedTable<String, String> byValue(KTable<String, String> table) {
        return table.groupBy((k, v) -> KeyValue.pair(v.substring(0, 1), v),
            Grouped.with(Serdes.String(), Serdes.String()));
    }

    private static String tail(String text) {
        return text.length() > 60 ? text.substring(text.length() - 60) : text;
    }

    private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> as(String name) {
        return Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as(name)
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.String());
    }

    private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> strings() {
        return Materialized.with(Serdes.String(), Serdes.String());
    }

    private static KStream<String, String> left(StreamsBuilder b) { return b.stream("left"); }

    private static KStream<String, String> right(StreamsBuilder b) { return b.stream("right"); }

    private static KTable<String, String> first(StreamsBuilder b) { return b.table("left"); }

    private static void out(KStream<String, String> stream) { stream.to("out"); }
}
