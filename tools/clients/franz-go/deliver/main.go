// A source of the delivery tests on franz-go, which speaks transaction version 2 (KIP-890).
//
// Several producers side by side, each with bursts of transactions and nothing between two of them: a
// record to every partition, then commit, or abort before anything may have been sent. What they do goes
// into a journal (tests/delivery/delivery_journal.py); arguments are name=value.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	producers    = 6
	burst        = 8
	abortedShare = 0.2
	fatalExit    = 3
	rest         = 3 * time.Second
	callTimeout  = 30 * time.Second
)

var (
	given   = map[string]string{}
	journal *os.File
	ending  atomic.Bool
)

func main() {
	for _, argument := range os.Args[1:] {
		name, value, _ := strings.Cut(argument, "=")
		given[name] = value
	}
	var err error
	journal, err = os.OpenFile(given["journal"], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		panic(err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		ending.Store(true)
	}()
	var all sync.WaitGroup
	for number := range producers {
		all.Go(func() { newSource(number).run() })
	}
	all.Wait()
}

type source struct {
	name   string
	id     string // transactional.id
	chance *rand.Rand
	client *kgo.Client
	count  int
	stored atomic.Bool // a record of its was, so that it has a producer id
}

func newSource(number int) *source {
	name := fmt.Sprintf("%s.%s.%d", given["slot"], given["incarnation"], number)
	id := fmt.Sprintf("%s-%s-%d", given["group"], given["slot"], number)
	seed := fnv.New64a()
	seed.Write([]byte(given["seed"] + name))
	timeout, err := strconv.Atoi(given["transaction_timeout_ms"])
	check(err)
	client, err := kgo.NewClient(append(security(),
		kgo.SeedBrokers(strings.Split(given["bootstrap"], ",")...),
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(time.Duration(timeout)*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // the checks read the log by themselves
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }),
		kgo.RequestRetries(1<<20), // it is the time that counts
		kgo.RetryTimeout(callTimeout),
		kgo.AlwaysRetryEOF(), // a broker that is killed while we connect is no reason to give up
	)...)
	check(err)
	chance := rand.New(rand.NewSource(int64(seed.Sum64())))
	return &source{name: name, id: id, chance: chance, client: client}
}

// security is what a cluster asks for that is closed to strangers.
func security() []kgo.Opt {
	if given["user"] == "" {
		return nil
	}
	pem, err := os.ReadFile(given["ca"])
	check(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	who := scram.Auth{User: given["user"], Pass: given["password"]}
	return []kgo.Opt{
		kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}),
		kgo.SASL(who.AsSha256Mechanism()),
	}
}

func (s *source) run() {
	defer s.client.Close()
	write("ready")
	for !ending.Load() {
		for each := 0; each < burst && !ending.Load(); each++ {
			s.transaction()
		}
		time.Sleep(time.Duration(s.chance.Int63n(int64(rest))))
	}
}

func (s *source) transaction() {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	s.count++
	name := fmt.Sprintf("%s-%d", s.name, s.count)
	records, err := strconv.Atoi(given["partitions"])
	s.check(err)
	s.check(s.client.BeginTransaction())
	var failed atomic.Bool
	for number := range records {
		id := fmt.Sprintf("%s.%d.%d", name, number, records)
		write("sent", id)
		record := &kgo.Record{Topic: given["input"], Partition: int32(number), Key: []byte(id), Value: []byte(id)}
		s.client.Produce(ctx, record, func(stored *kgo.Record, err error) {
			if err == nil {
				s.stored.Store(true)
				write("acked", id, stored.Topic, stored.Partition, stored.Offset)
			} else if !errors.Is(err, kgo.ErrAborting) {
				write("note", fmt.Sprintf("%s: %s", name, reason(err)))
				failed.Store(true)
				if !passes(err) {
					s.check(err)
				}
			}
		})
	}
	if s.chance.Float64() < abortedShare {
		s.check(s.client.AbortBufferedRecords(ctx))
		s.abort(ctx, name)
		return
	}
	s.check(s.client.Flush(ctx))
	if failed.Load() {
		s.abort(ctx, name)
		return
	}
	write("committing", name)
	err = s.client.EndTransaction(ctx, kgo.TryCommit)
	if errors.Is(err, kerr.OperationNotAttempted) || errors.Is(err, kerr.TransactionAbortable) {
		write("note", fmt.Sprintf("%s: %s", name, reason(err)))
		s.abort(ctx, name)
		return
	}
	s.check(err)
	write("committed", name)
}

func (s *source) abort(ctx context.Context, name string) {
	err := s.client.EndTransaction(ctx, kgo.TryAbort)
	if errors.Is(err, kerr.InvalidProducerIDMapping) && !s.stored.Load() {
		// It asked for a producer id in vain, and the client ends the transaction without one.
		err = fmt.Errorf("%w: no producer id", context.DeadlineExceeded)
	}
	s.check(err)
	write("aborted", name)
}

// passes tells an error after which the transaction is aborted, and the producer goes on.
func passes(err error) bool {
	var told *kerr.Error
	return !errors.As(err, &told) || told.Retriable || told == kerr.TransactionAbortable
}

// check ends the process, and with it all its producers, where only another producer can go on.
func (s *source) check(err error) { fail(err, s.id) }

func check(err error) { fail(err) }

func fail(err error, of ...any) {
	if err != nil {
		write(append([]any{"error", reason(err)}, of...)...)
		os.Exit(fatalExit)
	}
}

// reason opens with the broker's code, or says that nobody answered; anything else is a finding.
func reason(err error) string {
	var told *kerr.Error
	if errors.As(err, &told) {
		return told.Message + ": " + err.Error()
	}
	if isOfConnection(err) {
		return "NoAnswer: " + err.Error()
	}
	return "Unexpected: " + err.Error()
}

// isOfConnection tells an error of a connection, or of the time that a call has.
func isOfConnection(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, context.DeadlineExceeded) || kgo.IsRetryableBrokerErr(err)
}

func write(words ...any) {
	line, err := json.Marshal(words)
	if err != nil {
		panic(err)
	}
	if _, err := journal.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}
