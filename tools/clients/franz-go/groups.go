package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// member polls in the background and remembers what it owns and what it read.
type member struct {
	client *kgo.Client
	mutex  sync.Mutex
	owned  map[int32]bool
	values map[string]bool
	done   chan struct{}
}

func join(topic, group string, options ...kgo.Opt) *member {
	one := &member{owned: map[int32]bool{}, values: map[string]bool{}, done: make(chan struct{})}
	change := func(owned bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			one.mutex.Lock()
			defer one.mutex.Unlock()
			for _, partition := range changed[topic] {
				if owned {
					one.owned[partition] = true
				} else {
					delete(one.owned, partition)
				}
			}
		}
	}
	one.client = client(append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(300 * time.Millisecond),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)),
		kgo.OnPartitionsLost(change(false)),
	}, options...)...)
	go func() {
		defer close(one.done)
		for {
			fetches := one.client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			one.mutex.Lock()
			fetches.EachRecord(func(record *kgo.Record) { one.values[string(record.Value)] = true })
			one.mutex.Unlock()
		}
	}()
	return one
}

func (m *member) leave() {
	m.client.Close()
	<-m.done
}

func spread(members []*member, count int) bool {
	owners := map[int32]int{}
	for _, one := range members {
		one.mutex.Lock()
		for partition := range one.owned {
			owners[partition]++
		}
		empty := len(one.owned) == 0
		one.mutex.Unlock()
		if empty {
			return false
		}
	}
	for _, owned := range owners {
		if owned != 1 {
			return false
		}
	}
	return len(owners) == count
}

func shareAndHandOver(ctx context.Context, balancer kgo.GroupBalancer) {
	topic, group := makeTopic(ctx, 6, nil), unique("go-group")
	var members []*member
	for i := 1; i <= 3; i++ {
		members = append(members, join(topic, group, kgo.Balancers(balancer)))
		until(fmt.Sprint(i, " members share"), func() bool { return spread(members, 6) })
	}
	send(ctx, topic, 300)
	until("all is read", func() bool {
		seen := map[string]bool{}
		for _, one := range members {
			one.mutex.Lock()
			for value := range one.values {
				seen[value] = true
			}
			one.mutex.Unlock()
		}
		return len(seen) == 300
	})
	members[2].leave()
	members = members[:2]
	until("two members share", func() bool { return spread(members, 6) })
	for _, one := range members {
		one.leave()
	}
}

func groupChecks() {
	check("group: range members share and hand over", func(ctx context.Context) {
		shareAndHandOver(ctx, kgo.RangeBalancer())
	})
	check("group: cooperative members share and hand over", func(ctx context.Context) {
		shareAndHandOver(ctx, kgo.CooperativeStickyBalancer())
	})
	check("group: commit and go on", func(ctx context.Context) {
		topic, group := makeTopic(ctx, 1, nil), unique("go-group")
		send(ctx, topic, 20)
		options := []kgo.Opt{kgo.ConsumerGroup(group), kgo.DisableAutoCommit()}
		consumer := client(append(options, kgo.ConsumeTopics(topic))...)
		got := take(ctx, consumer, 20)
		must(consumer.CommitRecords(ctx, got[11]))
		consumer.Close()
		again := read(ctx, topic, 8, options...)
		holds(again[0].Offset == 12, "it goes on at %d", again[0].Offset)
	})
	check("group: static member keeps its generation", func(ctx context.Context) {
		topic, group := makeTopic(ctx, 2, nil), unique("go-group")
		var generations []int32
		for i := 0; i < 2; i++ {
			one := join(topic, group, kgo.InstanceID("rock"))
			until("it has its partitions", func() bool { return spread([]*member{one}, 2) })
			_, generation := one.client.GroupMetadata()
			generations = append(generations, generation)
			one.leave()
		}
		holds(generations[0] == generations[1], "generations %v", generations)
	})
	check("group: regular expression", func(ctx context.Context) {
		prefix := unique("go-regex")
		send(ctx, prefix+"-a", 1, kgo.AllowAutoTopicCreation())
		send(ctx, prefix+"-b", 1, kgo.AllowAutoTopicCreation())
		read(ctx, "^"+prefix+"-.*", 2, kgo.ConsumeRegex(), kgo.ConsumerGroup(unique("go-group")))
	})
}
