// What franz-go (kgo and kadm) can do on one broker. usage: checks host:port
// Prints one TAP line for each check; tests/compat/test_franz_go.py reads them.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 60 * time.Second

var bootstrap string

func main() {
	bootstrap = os.Args[1]
	produceChecks()
	groupChecks()
	adminChecks()
	transactionChecks()
	newGroupChecks()
}

func check(name string, body func(ctx context.Context)) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Printf("not ok %s\n", name)
			text := fmt.Sprintf("%v\n%s", problem, debug.Stack())
			fmt.Println("# " + strings.ReplaceAll(text, "\n", "\n# "))
			return
		}
		fmt.Printf("ok %s # %d ms\n", name, time.Since(start).Milliseconds())
	}()
	body(ctx)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func holds(condition bool, what string, values ...any) {
	if !condition {
		panic(fmt.Sprintf(what, values...))
	}
}

func unique(prefix string) string {
	id := make([]byte, 5)
	_, err := rand.Read(id)
	must(err)
	return prefix + "-" + hex.EncodeToString(id)
}

func until(what string, condition func() bool) {
	deadline := time.Now().Add(patience)
	for !condition() {
		holds(time.Now().Before(deadline), "never: %s", what)
		time.Sleep(50 * time.Millisecond)
	}
}

func client(options ...kgo.Opt) *kgo.Client {
	all := append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.FetchMaxWait(500 * time.Millisecond)}, options...)
	made, err := kgo.NewClient(all...)
	must(err)
	return made
}

func withAdmin(body func(admin *kadm.Client)) {
	one := client()
	defer one.Close()
	body(kadm.NewClient(one))
}

func makeTopic(ctx context.Context, partitions int32, configs map[string]*string) string {
	topic := unique("go")
	withAdmin(func(admin *kadm.Client) {
		_, err := admin.CreateTopic(ctx, partitions, 1, configs, topic)
		must(err)
		until("the topic is there", func() bool {
			listed, err := admin.ListTopics(ctx, topic)
			return err == nil && listed.Has(topic) && len(listed[topic].Partitions) == int(partitions)
		})
	})
	return topic
}

func send(ctx context.Context, topic string, count int, options ...kgo.Opt) []*kgo.Record {
	producer := client(options...)
	defer producer.Close()
	records := make([]*kgo.Record, count)
	for i := range records {
		records[i] = &kgo.Record{Topic: topic, Key: []byte(fmt.Sprint("key", i)), Value: []byte(fmt.Sprint(i))}
	}
	results := producer.ProduceSync(ctx, records...)
	must(results.FirstErr())
	return records
}

// take polls until count records have come.
func take(ctx context.Context, consumer *kgo.Client, count int) []*kgo.Record {
	var got []*kgo.Record
	for len(got) < count {
		fetches := consumer.PollFetches(ctx)
		must(fetches.Err())
		for _, fault := range fetches.Errors() {
			must(fault.Err)
		}
		got = append(got, fetches.Records()...)
	}
	return got
}

func read(ctx context.Context, topic string, count int, options ...kgo.Opt) []*kgo.Record {
	start := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
	consumer := client(append([]kgo.Opt{kgo.ConsumeTopics(topic), start}, options...)...)
	defer consumer.Close()
	return take(ctx, consumer, count)
}

func produceChecks() {
	check("produce and consume with every codec", func(ctx context.Context) {
		codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(),
			kgo.Lz4Compression(), kgo.ZstdCompression()}
		for _, codec := range codecs {
			topic := makeTopic(ctx, 1, nil)
			send(ctx, topic, 500, kgo.ProducerBatchCompression(codec))
			for i, record := range read(ctx, topic, 500) {
				holds(string(record.Value) == fmt.Sprint(i), "value %d is %s", i, record.Value)
				holds(record.Offset == int64(i), "offset %d is %d", i, record.Offset)
			}
		}
	})
	check("acks none, leader and all", func(ctx context.Context) {
		for _, acks := range []kgo.Acks{kgo.NoAck(), kgo.LeaderAck(), kgo.AllISRAcks()} {
			topic := makeTopic(ctx, 1, nil)
			send(ctx, topic, 50, kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite())
			read(ctx, topic, 50)
		}
	})
	check("headers, nil keys, tombstones and timestamps", func(ctx context.Context) {
		topic := makeTopic(ctx, 1, nil)
		at := time.UnixMilli(1_700_000_000_000)
		producer := client()
		defer producer.Close()
		rich := &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: at,
			Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}}}
		must(producer.ProduceSync(ctx, rich, &kgo.Record{Topic: topic, Key: []byte("k")}).FirstErr())
		got := read(ctx, topic, 2)
		holds(got[0].Key == nil && len(got[0].Headers) == 2, "the first is %v", got[0])
		holds(string(got[0].Headers[0].Value) == "1" && got[0].Headers[1].Value == nil, "headers")
		holds(got[0].Timestamp.Equal(at), "timestamp %v", got[0].Timestamp)
		holds(string(got[1].Key) == "k" && got[1].Value == nil, "a tombstone")
	})
	check("a record that is too large is an error", func(ctx context.Context) {
		limit := "1000"
		topic := makeTopic(ctx, 1, map[string]*string{"max.message.bytes": &limit})
		producer := client(kgo.ProducerBatchCompression(kgo.NoCompression()))
		defer producer.Close()
		large := &kgo.Record{Topic: topic, Value: []byte(strings.Repeat("x", 5000))}
		err := producer.ProduceSync(ctx, large).FirstErr()
		holds(err != nil && strings.Contains(err.Error(), "MESSAGE_TOO_LARGE"), "the error is %v", err)
		must(producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("small")}).FirstErr())
	})
	check("many partitions keep their order", func(ctx context.Context) {
		topic := makeTopic(ctx, 10, nil)
		send(ctx, topic, 5000)
		last := map[int32]int64{}
		for _, record := range read(ctx, topic, 5000) {
			if before, seen := last[record.Partition]; seen {
				holds(record.Offset == before+1, "partition %d jumps", record.Partition)
			}
			last[record.Partition] = record.Offset
		}
	})
	check("unknown topic is created on first use", func(ctx context.Context) {
		topic := unique("go-auto")
		send(ctx, topic, 3, kgo.AllowAutoTopicCreation())
		read(ctx, topic, 3)
	})
}
