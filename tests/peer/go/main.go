// Program peer runs one feature of Apache Pulsar's client for Go against a broker, and ends with 0 when it held.
//
// Usage: peer FEATURE SERVICE_URL WEB_URL TOPIC. A failure is one line on standard error, and the status is 1.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"log/slog"
)

// Each wait for something that has to happen.
const patience = 20 * time.Second

// How many numbered messages a feature sends.
const count = 100

// Broker is the client, the HTTP address for requests of administration, and a topic that nobody else uses.
type Broker struct {
	pulsar.Client
	web   string
	topic string
}

var features = map[string]func(*Broker) error{
	"exclusive":         exclusive,
	"shared":            shared,
	"failover":          failover,
	"key_shared":        keyShared,
	"parts_of_a_batch":  partsOfABatch,
	"dead_letter":       deadLetter,
	"seek":              seek,
	"table_view":        tableView,
	"schema_json":       schemaJSON,
	"schema_avro":       schemaAvro,
	"unload":            unload,
	"negative_ack":      negativeAck,
	"reader":            reader,
	"partitioned_topic": partitionedTopic,
}

func main() {
	if len(os.Args) != 5 || features[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: peer FEATURE SERVICE_URL WEB_URL TOPIC, FEATURE one of main.go")
		os.Exit(2)
	}
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL:    os.Args[2],
		Logger: log.NewLoggerWithSlog(slog.New(slog.NewTextHandler(io.Discard, nil))),
	})
	if err == nil {
		err = features[os.Args[1]](&Broker{client, os.Args[3], os.Args[4]})
		client.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// sendNumbers sends the numbers from `from` to below `to`, each with the key of its last digit.
func sendNumbers(producer pulsar.Producer, from, to int) error {
	for number := from; number < to; number++ {
		message := pulsar.ProducerMessage{Payload: []byte(strconv.Itoa(number)), Key: strconv.Itoa(number % 10)}
		ctx, cancel := within()
		_, err := producer.Send(ctx, &message)
		cancel()
		if err != nil {
			return fmt.Errorf("message %d was not sent: %w", number, err)
		}
	}
	return nil
}

// produced sends `count` numbers by a producer of the topic.
func (b *Broker) produced() error {
	producer, err := b.CreateProducer(pulsar.ProducerOptions{Topic: b.topic})
	if err != nil {
		return err
	}
	defer producer.Close()
	return sendNumbers(producer, 0, count)
}

// receive returns the next message's number.
func receive(consumer pulsar.Consumer) (int, pulsar.Message, error) {
	ctx, cancel := within()
	defer cancel()
	message, err := consumer.Receive(ctx)
	if err != nil {
		return 0, nil, err
	}
	number, err := strconv.Atoi(string(message.Payload()))
	return number, message, err
}

// receiveInOrder receives the numbers from `from` to below `to` one after the other, and acknowledges each.
func receiveInOrder(consumer pulsar.Consumer, from, to int) error {
	for wanted := from; wanted < to; wanted++ {
		number, message, err := receive(consumer)
		if err != nil {
			return fmt.Errorf("message %d did not come: %w", wanted, err)
		}
		if number != wanted {
			return fmt.Errorf("message %d came instead of %d", number, wanted)
		}
		if err := consumer.Ack(message); err != nil {
			return err
		}
	}
	return nil
}
