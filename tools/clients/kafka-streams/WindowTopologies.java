import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** The topologies that Ottla's tests build, too: same inputs, same outputs. Strings everywhere. */
final class WindowTopologies {
    static final Map<String, Consumer<StreamsBuilder>> ALL = new TreeMap<>();

    private static final EmitStrategy CLOSE = EmitStrategy.onWindowClose();
    private static final Suppressed.StrictBufferConfig UNBOUNDED =
        Suppressed.BufferConfig.unbounded();

    static {
        ALL.put("tumbling", b -> windows(timed(b, tumbling()).count()));
        ALL.put("hopping", b -> windows(timed(b, hopping()).reduce((x, y) -> x + y)));
        ALL.put("hopping-aggregate", b -> windows(
            timed(b, hopping()).aggregate(() -> "", (k, v, a) -> a + v, wide())));
        ALL.put("unlimited", b -> windows(grouped(b).windowedBy(UnlimitedWindows.of()).count()));
        ALL.put("sliding", b -> windows(grouped(b).windowedBy(slide()).count()));
        ALL.put("sliding-aggregate", b -> windows(
            grouped(b).windowedBy(slide()).aggregate(() -> "", (k, v, a) -> a + v, wide())));
        ALL.put("session", b -> windows(sessions(b).count()));
        ALL.put("session-aggregate", b -> windows(
            sessions(b).aggregate(() -> "", (k, v, a) -> a + v, (k, x, y) -> x + "|" + y,
                Materialized.with(Serdes.String(), Serdes.String()))));
        ALL.put("session-kept", b -> windows(sessions(b).count(
            Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("kept")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long())
                .withRetention(Duration.ofHours(1)))));
        ALL.put("session-reduce", b -> windows(sessions(b).reduce((x, y) -> x + y)));
        ALL.put("close-tumbling", b -> windows(timed(b, tumbling()).emitStrategy(CLOSE).count(kept())));
        ALL.put("close-hopping", b -> windows(timed(b, hopping()).emitStrategy(CLOSE).count(kept())));
        ALL.put("close-sliding", b -> windows(
            grouped(b).windowedBy(slide()).emitStrategy(CLOSE).count(kept())));
        ALL.put("close-session", b -> windows(sessions(b).emitStrategy(CLOSE).count()));
        suppressed();
        streamJoins();
        tableJoins();
        cogroups();
    }

    private static void suppressed() {
        ALL.put("suppress-tumbling", b -> windows(timed(b, tumbling()).count()
            .suppress(Suppressed.untilWindowCloses(UNBOUNDED))));
        ALL.put("suppress-session", b -> windows(sessions(b).count()
            .suppress(Suppressed.untilWindowCloses(UNBOUNDED))));
        ALL.put("suppress-time", b -> out(b.<String, String>table("left")
            .suppress(Suppressed.untilTimeLimit(Duration.ofMillis(5), UNBOUNDED)).toStream()));
        ALL.put("suppress-records", b -> out(b.<String, String>table("left")
            .suppress(Suppressed.untilTimeLimit(Duration.ofMillis(20),
                Suppressed.BufferConfig.maxRecords(2))).toStream()));
        ALL.put("suppress-join", b -> out(b.<String, String>table("left")
            .suppress(Suppressed.untilTimeLimit(Duration.ofMillis(5), UNBOUNDED))
            .join(b.<String, String>table("right"), (l, r) -> l + "+" + r).toStream()));
        ALL.put("suppress-group", b -> out(b.<String, String>table("left")
            .suppress(Suppressed.untilTimeLimit(Duration.ofMillis(5), UNBOUNDED))
            .groupBy((k, v) -> KeyValue.pair("all", v))
            .aggregate(() -> "", (k, v, a) -> a + "+" + v, (k, v, a) -> a + "-" + v,
                Materialized.with(Serdes.String(), Serdes.String())).toStream()));
    }

    private static void streamJoins() {
        JoinWindows near = JoinWindows.ofTimeDifferenceAndGrace(
            Duration.ofMillis(5), Duration.ofMillis(3));
        JoinWindows lopsided = JoinWindows.ofTimeDifferenceAndGrace(
            Duration.ofMillis(0), Duration.ofMillis(2)).before(Duration.ofMillis(2))
            .after(Duration.ofMillis(7));
        ALL.put("stream-join", b -> out(left(b).join(right(b), (l, r) -> l + "+" + r, near)));
        ALL.put("stream-left", b -> out(left(b).leftJoin(right(b), (l, r) -> l + "+" + r, near)));
        ALL.put("stream-outer", b -> out(left(b).outerJoin(right(b), (l, r) -> l + "+" + r, near)));
        ALL.put("stream-join-lopsided",
            b -> out(left(b).join(right(b), (l, r) -> l + "+" + r, lopsided)));
        ALL.put("stream-left-lopsided",
            b -> out(left(b).leftJoin(right(b), (l, r) -> l + "+" + r, lopsided)));
        ALL.put("stream-outer-lopsided",
            b -> out(left(b).outerJoin(right(b), (l, r) -> l + "+" + r, lopsided)));
        ALL.put("stream-self", b -> {
            KStream<String, String> one = left(b);
            out(one.join(one, (l, r) -> l + "+" + r, near));
        });
        ALL.put("stream-rekeyed", b -> out(left(b).selectKey((k, v) -> v).join(
            right(b).map((k, v) -> KeyValue.pair(v, k)), (l, r) -> l + "+" + r, near)));
        ALL.put("stream-left-rekeyed", b -> out(left(b)
            .selectKey((k, v) -> "z".equals(v) ? null : v)
            .leftJoin(right(b).map((k, v) -> KeyValue.pair(v, k)), (l, r) -> l + "+" + r, near)));
        ALL.put("stream-outer-rekeyed", b -> out(left(b)
            .selectKey((k, v) -> "z".equals(v) ? null : v)
            .outerJoin(right(b).selectKey((k, v) -> "z".equals(v) ? null : v),
                (l, r) -> l + "+" + r, near)));
        ALL.put("stream-table-left-rekeyed", b -> out(left(b)
            .selectKey((k, v) -> "z".equals(v) ? null : v)
            .leftJoin(b.<String, String>table("right"), (l, r) -> l + "+" + r)));
        ALL.put("stream-table", b -> out(
            left(b).join(b.<String, String>table("right"), (l, r) -> l + "+" + r)));
        ALL.put("stream-table-left", b -> out(
            left(b).leftJoin(b.<String, String>table("right"), (l, r) -> l + "+" + r)));
        ALL.put("stream-global", b -> out(left(b).join(
            b.<String, String>globalTable("right"), (k, v) -> "z".equals(v) ? null : v, (l, r) -> l + "+" + r)));
        ALL.put("stream-global-left", b -> out(left(b).leftJoin(
            b.<String, String>globalTable("right"), (k, v) -> "z".equals(v) ? null : v, (l, r) -> l + "+" + r)));
    }

    private static void tableJoins() {
        ALL.put("table-join", b -> out(
            first(b).join(second(b), (l, r) -> l + "+" + r).toStream()));
        ALL.put("table-left", b -> out(
            first(b).leftJoin(second(b), (l, r) -> l + "+" + r).toStream()));
        ALL.put("table-outer", b -> out(
            first(b).outerJoin(second(b), (l, r) -> l + "+" + r).toStream()));
        ALL.put("table-join-store", b -> out(first(b).join(second(b), (l, r) -> l + "+" + r,
            Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("joined")
                .withValueSerde(Serdes.String())).toStream()));
        ALL.put("table-join-group", b -> out(grouped(
            first(b).join(second(b), (l, r) -> l + "+" + r))));
        ALL.put("table-left-group", b -> out(grouped(
            first(b).leftJoin(second(b), (l, r) -> l + "+" + r))));
        ALL.put("table-outer-group", b -> out(grouped(
            first(b).outerJoin(second(b), (l, r) -> l + "+" + r))));
        ALL.put("table-three", b -> {
            KTable<String, String> both = first(b).outerJoin(second(b), (l, r) -> l + "+" + r);
            out(both.leftJoin(b.<String, String>table("third"), (l, r) -> l + "*" + r).toStream());
        });
        ALL.put("foreign", b -> out(first(b).join(second(b),
            v -> v.substring(0, 1), (l, r) -> l + "+" + r).toStream()));
        ALL.put("foreign-left", b -> out(first(b).leftJoin(second(b),
            v -> v.equals("z") ? null : v.substring(0, 1), (l, r) -> l + "+" + r).toStream()));
        ALL.put("foreign-inner-null", b -> out(first(b).join(second(b),
            v -> v.equals("z") ? null : v.substring(0, 1), (l, r) -> l + "+" + r).toStream()));
        ALL.put("foreign-store", b -> out(first(b).join(second(b),
            v -> v.substring(0, 1), (l, r) -> l + "+" + r,
            Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("joined")
                .withValueSerde(Serdes.String())).toStream()));
    }

    private static void cogroups() {
        Materialized<String, String, KeyValueStore<Bytes, byte[]>> strings =
            Materialized.with(Serdes.String(), Serdes.String());
        ALL.put("cogroup", b -> out(both(b).aggregate(() -> "", strings).toStream()));
        ALL.put("cogroup-tumbling", b -> windows(
            both(b).windowedBy(tumbling()).aggregate(() -> "", wide())));
        ALL.put("cogroup-sliding", b -> windows(
            both(b).windowedBy(slide()).aggregate(() -> "", wide())));
        ALL.put("cogroup-session", b -> windows(both(b)
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(5), ms(3)))
            .aggregate(() -> "", (k, x, y) -> x + "|" + y,
                Materialized.with(Serdes.String(), Serdes.String()))));
    }

    private static CogroupedKStream<String, String> both(StreamsBuilder b) {
        return left(b).groupByKey().<String>cogroup((k, v, a) -> a + v)
            .cogroup(right(b).groupByKey(), (k, v, a) -> a + ("" + v).toUpperCase());
    }

    private static KStream<String, String> grouped(KTable<String, String> table) {
        return table.groupBy((k, v) -> KeyValue.pair("all", v))
            .aggregate(() -> "", (k, v, a) -> tail(a + "+" + v), (k, v, a) -> tail(a + "-" + v),
                Materialized.with(Serdes.String(), Serdes.String())).toStream();
    }

    private static String tail(String text) {
        return text.length() > 60 ? text.substring(text.length() - 60) : text;
    }

    private static <S extends org.apache.kafka.streams.processor.StateStore>
            Materialized<String, String, S> wide() {
        return Materialized.with(Serdes.String(), Serdes.String());
    }

    /** Kafka drops windows before it emits them, when time leaps by their retention. */
    private static Materialized<String, Long, WindowStore<Bytes, byte[]>> kept() {
        return Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("kept")
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long())
            .withRetention(Duration.ofHours(1));
    }

    private static KStream<String, String> left(StreamsBuilder b) { return b.stream("left"); }

    private static KStream<String, String> right(StreamsBuilder b) { return b.stream("right"); }

    private static KTable<String, String> first(StreamsBuilder b) { return b.table("left"); }

    private static KTable<String, String> second(StreamsBuilder b) { return b.table("right"); }

    private static KGroupedStream<String, String> grouped(StreamsBuilder b) {
        return left(b).groupByKey(Grouped.with(Serdes.String(), Serdes.String()));
    }

    private static TimeWindowedKStream<String, String> timed(
            StreamsBuilder b, TimeWindows windows) {
        return grouped(b).windowedBy(windows);
    }

    private static SessionWindowedKStream<String, String> sessions(StreamsBuilder b) {
        return grouped(b).windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(5), ms(3)));
    }

    private static TimeWindows tumbling() {
        return TimeWindows.ofSizeAndGrace(ms(10), ms(4));
    }

    private static TimeWindows hopping() {
        return TimeWindows.ofSizeAndGrace(ms(10), ms(4)).advanceBy(ms(3));
    }

    private static SlidingWindows slide() {
        return SlidingWindows.ofTimeDifferenceAndGrace(ms(10), ms(4));
    }

    private static Duration ms(long count) { return Duration.ofMillis(count); }

    private static void windows(KTable<Windowed<String>, ?> table) {
        out(table.toStream().map((k, v) -> KeyValue.pair(
            k.key() + "@" + k.window().start() + "/" + k.window().end(),
            v == null ? null : v.toString())));
    }

    private static void out(KStream<String, String> stream) { stream.to("out"); }
}
