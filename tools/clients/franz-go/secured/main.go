// kadm over SASL_SSL with SCRAM: rules are made, listed and deleted, users are made.
// usage: secured host:port ca.pem user password
// Prints one TAP line for each check; tests/compat/test_secured_clients.py reads them.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	patience = 60 * time.Second
	reader   = "go-reader"
	password = "go-secret"
	topic    = "go-acls"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	operator := client(os.Args[3], os.Args[4])
	admin := kadm.NewClient(operator)
	defer admin.Close()
	check("a user is made", func() {
		wish := kadm.UpsertSCRAM{
			User: reader, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: password,
		}
		altered, err := admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{wish})
		must(err)
		must(altered.Error())
	})
	check("records are sent and read", func() { roundTrip(ctx, operator) })
	check("a rule is made, listed and deleted", func() { rules(ctx, admin) })
}

func roundTrip(ctx context.Context, operator *kgo.Client) {
	const name = "go-records"
	created, err := kadm.NewClient(operator).CreateTopic(ctx, 1, 1, nil, name)
	must(err)
	must(created.Err)
	for _, value := range []string{"one", "two"} {
		must(operator.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte(value)}).FirstErr())
	}
	operator.AddConsumeTopics(name)
	got := ""
	for got != "onetwo" {
		fetches := operator.PollFetches(ctx)
		must(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) { got += string(record.Value) })
	}
}

func rule() *kadm.ACLBuilder {
	return kadm.NewACLs().Allow("User:" + reader).AllowHosts("*").Topics(topic).
		ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpRead)
}

func rules(ctx context.Context, admin *kadm.Client) {
	made, err := admin.CreateACLs(ctx, rule())
	must(err)
	holds(len(made) == 1 && made[0].Err == nil, made)
	found, err := admin.DescribeACLs(ctx, rule())
	must(err)
	holds(len(found) == 1 && len(found[0].Described) == 1, found)
	listed := found[0].Described[0]
	holds(listed.Principal == "User:"+reader && listed.Name == topic, listed)
	deleted, err := admin.DeleteACLs(ctx, rule())
	must(err)
	holds(len(deleted) == 1 && len(deleted[0].Deleted) == 1, deleted)
}

func client(user, secret string) *kgo.Client {
	text, err := os.ReadFile(os.Args[2])
	must(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	mechanism := scram.Auth{User: user, Pass: secret}.AsSha256Mechanism()
	made, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}),
		kgo.SASL(mechanism),
	)
	must(err)
	return made
}

func check(name string, body func()) {
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Printf("not ok %s\n# %v\n", name, problem)
			return
		}
		fmt.Printf("ok %s\n", name)
	}()
	body()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func holds(condition bool, found any) {
	if !condition {
		panic(fmt.Sprintf("found %+v", found))
	}
}
