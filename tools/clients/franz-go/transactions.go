package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var committed = kgo.FetchIsolationLevel(kgo.ReadCommitted())

func inTransaction(ctx context.Context, producer *kgo.Client, topic, value string, commit kgo.TransactionEndTry) {
	must(producer.BeginTransaction())
	must(producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr())
	must(producer.EndTransaction(ctx, commit))
}

// copyAll moves every record from one topic to another with a GroupTransactSession, in many transactions.
func copyAll(ctx context.Context, source, target string, count int) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID(unique("go-txn")), kgo.ConsumerGroup(unique("go-group")),
		kgo.ConsumeTopics(source), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), committed,
		kgo.FetchMaxWait(300*time.Millisecond),
	)
	must(err)
	defer session.Close()
	for moved, turn := 0, 0; moved < count; turn++ {
		fetches := session.PollRecords(ctx, 20)
		must(fetches.Err())
		if fetches.NumRecords() == 0 {
			continue
		}
		must(session.Begin())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: target, Value: record.Value}, nil)
		})
		must(session.Client().Flush(ctx))
		done, err := session.End(ctx, kgo.TransactionEndTry(turn%3 != 2)) // every third is aborted
		must(err)
		if done {
			moved += fetches.NumRecords()
		}
	}
}

func transactionChecks() {
	check("transactions: commit and abort", func(ctx context.Context) {
		topic := makeTopic(ctx, 1, nil)
		producer := client(kgo.TransactionalID(unique("go-txn")))
		defer producer.Close()
		inTransaction(ctx, producer, topic, "a", kgo.TryCommit)
		inTransaction(ctx, producer, topic, "dropped", kgo.TryAbort)
		inTransaction(ctx, producer, topic, "b", kgo.TryCommit)
		got := read(ctx, topic, 2, committed)
		holds(string(got[0].Value) == "a" && string(got[1].Value) == "b", "got %s %s", got[0].Value, got[1].Value)
		holds(len(read(ctx, topic, 3)) == 3, "read_uncommitted sees all")
	})
	check("transactions: a zombie is fenced", func(ctx context.Context) {
		topic, name := makeTopic(ctx, 1, nil), unique("go-txn")
		zombie, successor := client(kgo.TransactionalID(name)), client(kgo.TransactionalID(name))
		defer zombie.Close()
		defer successor.Close()
		must(zombie.BeginTransaction())
		must(zombie.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("left behind")}).FirstErr())
		inTransaction(ctx, successor, topic, "new", kgo.TryCommit)
		err := zombie.EndTransaction(ctx, kgo.TryCommit)
		holds(err != nil && (strings.Contains(err.Error(), "EPOCH") || strings.Contains(err.Error(), "FENCED")),
			"the zombie's error is %v", err)
		got := read(ctx, topic, 1, committed)
		holds(string(got[0].Value) == "new", "got %s", got[0].Value)
	})
	check("transactions: consume, transform, produce", func(ctx context.Context) {
		source, target := makeTopic(ctx, 2, nil), makeTopic(ctx, 2, nil)
		send(ctx, source, 200)
		copyAll(ctx, source, target, 200)
		seen := map[string]int{}
		for _, record := range read(ctx, target, 200, committed) {
			seen[string(record.Value)]++
		}
		holds(len(seen) == 200, "%d different values", len(seen))
	})
	check("transactions: they are listed and described", func(ctx context.Context) {
		topic, name := makeTopic(ctx, 1, nil), unique("go-txn")
		producer := client(kgo.TransactionalID(name))
		defer producer.Close()
		must(producer.BeginTransaction())
		must(producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("open")}).FirstErr())
		withAdmin(func(admin *kadm.Client) {
			listed, err := admin.ListTransactions(ctx, nil, nil)
			must(err)
			holds(listed[name].State == "Ongoing", "listed as %v", listed[name])
			described, err := admin.DescribeTransactions(ctx, name)
			must(err)
			holds(described[name].Topics.Lookup(topic, 0), "described as %v", described[name])
		})
		must(producer.EndTransaction(ctx, kgo.TryAbort))
	})
}

func newGroupChecks() {
	check("group of the new protocol: members share and hand over", func(ctx context.Context) {
		topic, group := makeTopic(ctx, 6, nil), unique("go-848")
		var members []*member
		for i := 1; i <= 3; i++ {
			members = append(members, join(topic, group, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())))
			until(fmt.Sprint(i, " members share"), func() bool { return spread(members, 6) })
		}
		members[2].leave()
		members = members[:2]
		until("two members share", func() bool { return spread(members, 6) })
		for _, one := range members {
			one.leave()
		}
	})
}
