// sarama over SASL_SSL with PLAIN and SCRAM, and with a client certificate; ACLs through its admin client.
// usage: secured sasl-host:port ssl-host:port ca.pem client.crt client.key user password
// Prints one TAP line for each check; tests/compat/test_secured_clients.py reads them.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

const stranger = "sarama-stranger"

func main() {
	sasl, ssl := os.Args[1], os.Args[2]
	check("records over SASL_SSL with PLAIN", func() { roundTrip(sasl, plain(password()), "plain") })
	check("records over SASL_SSL with SCRAM-SHA-256", func() {
		roundTrip(sasl, withScram(sarama.SASLTypeSCRAMSHA256, scram.SHA256), "scram-256")
	})
	check("records over SASL_SSL with SCRAM-SHA-512", func() {
		roundTrip(sasl, withScram(sarama.SASLTypeSCRAMSHA512, scram.SHA512), "scram-512")
	})
	check("records over SSL with a certificate", func() { roundTrip(ssl, certificate(), "certificate") })
	check("a wrong password is refused", func() {
		_, err := sarama.NewClient([]string{sasl}, plain("wrong"))
		holds(errors.Is(err, sarama.ErrSASLAuthenticationFailed), err)
	})
	check("a rule is made, listed and deleted", func() { rules(sasl) })
}

// roundTrip creates a topic, sends two records and reads them.
func roundTrip(bootstrap string, config *sarama.Config, name string) {
	topic := "sarama-" + name
	client, err := sarama.NewClient([]string{bootstrap}, config)
	must(err)
	defer client.Close()
	admin, err := sarama.NewClusterAdminFromClient(client)
	must(err)
	must(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false))
	producer, err := sarama.NewSyncProducerFromClient(client)
	must(err)
	defer producer.Close()
	for _, value := range []string{"one", "two"} {
		message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)}
		_, _, err := producer.SendMessage(message)
		must(err)
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	must(err)
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	must(err)
	defer reader.Close()
	got := string((<-reader.Messages()).Value) + string((<-reader.Messages()).Value)
	holds(got == "onetwo", got)
}

func rules(bootstrap string) {
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, plain(password()))
	must(err)
	defer admin.Close()
	resource := sarama.Resource{
		ResourceType: sarama.AclResourceTopic, ResourceName: "sarama-",
		ResourcePatternType: sarama.AclPatternPrefixed,
	}
	rule := sarama.Acl{
		Principal: "User:" + stranger, Host: "*", Operation: sarama.AclOperationRead,
		PermissionType: sarama.AclPermissionAllow,
	}
	must(admin.CreateACL(resource, rule))
	principal := rule.Principal
	wanted := sarama.AclFilter{
		Version: 1, Principal: &principal, ResourceType: sarama.AclResourceTopic,
		ResourcePatternTypeFilter: sarama.AclPatternAny, Operation: sarama.AclOperationAny,
		PermissionType: sarama.AclPermissionAny,
	}
	found, err := admin.ListAcls(wanted)
	must(err)
	holds(len(found) == 1 && found[0].Resource == resource && *found[0].Acls[0] == rule, found)
	deleted, err := admin.DeleteACL(wanted, false)
	must(err)
	holds(len(deleted) == 1 && deleted[0].Err == sarama.ErrNoError, deleted)
}

func over() *sarama.Config {
	text, err := os.ReadFile(os.Args[3])
	must(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	config.Metadata.Retry.Max = 0
	config.Net.TLS.Enable = true
	config.Net.TLS.Config = &tls.Config{RootCAs: trusted}
	return config
}

func plain(secret string) *sarama.Config {
	config := over()
	config.Net.SASL.Enable = true
	config.Net.SASL.Mechanism = sarama.SASLTypePlaintext
	config.Net.SASL.User, config.Net.SASL.Password = os.Args[6], secret
	return config
}

func withScram(mechanism sarama.SASLMechanism, hash scram.HashGeneratorFcn) *sarama.Config {
	config := plain(password())
	config.Net.SASL.Mechanism = mechanism
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &login{hash: hash} }
	return config
}

func certificate() *sarama.Config {
	config := over()
	pair, err := tls.LoadX509KeyPair(os.Args[4], os.Args[5])
	must(err)
	config.Net.TLS.Config.Certificates = []tls.Certificate{pair}
	return config
}

func password() string { return os.Args[7] }

// login is sarama's SCRAMClient: it leaves the exchange to its users.
type login struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func (l *login) Begin(user, secret, authzid string) error {
	client, err := l.hash.NewClient(user, secret, authzid)
	if err == nil {
		l.conversation = client.NewConversation()
	}
	return err
}

func (l *login) Step(challenge string) (string, error) { return l.conversation.Step(challenge) }

func (l *login) Done() bool { return l.conversation.Done() }

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
