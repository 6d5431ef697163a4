package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func adminChecks() {
	check("admin: topics and partitions", func(ctx context.Context) {
		withAdmin(func(admin *kadm.Client) { topicsAndPartitions(ctx, admin) })
	})
	check("admin: configs", func(ctx context.Context) {
		withAdmin(func(admin *kadm.Client) { configs(ctx, admin) })
	})
	check("admin: offsets of topics", func(ctx context.Context) {
		withAdmin(func(admin *kadm.Client) { offsets(ctx, admin) })
	})
	check("admin: groups, their offsets and lag", func(ctx context.Context) {
		withAdmin(func(admin *kadm.Client) { groups(ctx, admin) })
	})
	check("admin: metadata, log dirs and versions", func(ctx context.Context) {
		withAdmin(func(admin *kadm.Client) {
			metadata, err := admin.Metadata(ctx)
			must(err)
			holds(len(metadata.Brokers) == 1 && metadata.Cluster != "", "metadata %v", metadata)
			dirs, err := admin.DescribeAllLogDirs(ctx, nil)
			must(err)
			holds(len(dirs) == 1, "log dirs of one broker")
			for _, one := range dirs {
				must(one.Error())
			}
			versions, err := admin.ApiVersions(ctx)
			must(err)
			holds(len(versions) == 1, "versions of one broker")
			for _, one := range versions {
				must(one.Err)
				high, there := one.KeyMaxVersion(0)
				holds(there && high == 13, "produce up to %d", high)
			}
		})
	})
}

func topicsAndPartitions(ctx context.Context, admin *kadm.Client) {
	topic := unique("go-admin")
	made, err := admin.CreateTopic(ctx, 2, -1, nil, topic)
	must(err)
	holds(made.NumPartitions == 2 && made.ReplicationFactor == 1, "made %v", made)
	_, err = admin.CreateTopic(ctx, 2, -1, nil, topic)
	holds(errors.Is(err, kerr.TopicAlreadyExists), "the second time: %v", err)
	grown, err := admin.UpdatePartitions(ctx, 5, topic)
	must(err)
	must(grown.Error())
	until("five partitions", func() bool {
		listed, err := admin.ListTopics(ctx, topic)
		return err == nil && len(listed[topic].Partitions) == 5
	})
	deleted, err := admin.DeleteTopics(ctx, topic)
	must(err)
	must(deleted.Error())
	until("it is gone", func() bool {
		listed, err := admin.ListTopics(ctx)
		return err == nil && !listed.Has(topic)
	})
}

func configs(ctx context.Context, admin *kadm.Client) {
	topic := makeTopic(ctx, 1, nil)
	value := func(name string) string {
		described, err := admin.DescribeTopicConfigs(ctx, topic)
		must(err)
		one, err := described.On(topic, nil)
		must(err)
		for _, config := range one.Configs {
			if config.Key == name {
				return config.MaybeValue()
			}
		}
		return "missing"
	}
	holds(value("cleanup.policy") == "delete", "the default")
	compact, retention := "compact", "99000"
	answers, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{
		{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: &compact},
		{Op: kadm.SetConfig, Name: "retention.ms", Value: &retention},
	}, topic)
	must(err)
	for _, answer := range answers {
		must(answer.Err)
	}
	until("altered", func() bool {
		return value("cleanup.policy") == "delete,compact" && value("retention.ms") == "99000"
	})
}

func offsets(ctx context.Context, admin *kadm.Client) {
	topic := makeTopic(ctx, 1, nil)
	producer := client()
	defer producer.Close()
	start := time.UnixMilli(1_700_000_000_000)
	for _, shift := range []time.Duration{0, 9 * time.Second, 5 * time.Second} {
		record := &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: start.Add(shift)}
		must(producer.ProduceSync(ctx, record).FirstErr())
	}
	at := func(listed kadm.ListedOffsets, err error) int64 {
		must(err)
		must(listed.Error())
		found, there := listed.Lookup(topic, 0)
		holds(there, "the partition is listed")
		return found.Offset
	}
	holds(at(admin.ListStartOffsets(ctx, topic)) == 0, "start")
	holds(at(admin.ListEndOffsets(ctx, topic)) == 3, "end")
	holds(at(admin.ListCommittedOffsets(ctx, topic)) == 3, "committed")
	holds(at(admin.ListOffsetsAfterMilli(ctx, start.UnixMilli()+1, topic)) == 1, "after a time")
	holds(at(admin.ListMaxTimestampOffsets(ctx, topic)) == 1, "largest timestamp")
	var cut kadm.Offsets
	cut.Add(kadm.Offset{Topic: topic, Partition: 0, At: 2})
	deleted, err := admin.DeleteRecords(ctx, cut)
	must(err)
	must(deleted.Error())
	holds(at(admin.ListStartOffsets(ctx, topic)) == 2, "start after a delete")
}

func groups(ctx context.Context, admin *kadm.Client) {
	topic, group := makeTopic(ctx, 2, nil), unique("go-group")
	send(ctx, topic, 10)
	one := join(topic, group)
	until("it has joined", func() bool { return spread([]*member{one}, 2) })
	listed, err := admin.ListGroups(ctx)
	must(err)
	holds(listed[group].ProtocolType == "consumer", "the group is listed: %v", listed[group])
	described, err := admin.DescribeGroups(ctx, group)
	must(err)
	must(described.Error())
	holds(described[group].State == "Stable" && len(described[group].Members) == 1, "described")
	deleted, err := admin.DeleteGroups(ctx, group)
	must(err)
	holds(errors.Is(deleted[group].Err, kerr.NonEmptyGroup), "a group in use: %v", deleted[group].Err)
	one.leave()
	var commit kadm.Offsets
	commit.AddOffset(topic, 0, 3, -1)
	must(admin.CommitAllOffsets(ctx, group, commit))
	fetched, err := admin.FetchOffsets(ctx, group)
	must(err)
	must(fetched.Error())
	found, there := fetched.Lookup(topic, 0)
	holds(there && found.At == 3, "committed %v", found)
	lags, err := admin.Lag(ctx, group)
	must(err)
	must(lags.Error())
	holds(lags[group].Lag.Total() > 0, "lag")
	removed, err := admin.DeleteOffsets(ctx, group, commit.TopicsSet())
	must(err)
	must(removed.Error())
	deleted, err = admin.DeleteGroups(ctx, group)
	must(err)
	must(deleted.Error())
}
