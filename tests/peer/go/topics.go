package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// request sends a request of administration and returns the body of the answer.
func (b *Broker) request(method, path, body string) (string, error) {
	request, err := http.NewRequest(method, b.web+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode > 299 {
		err = fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, text)
	}
	return string(text), err
}

// path is the topic without its scheme, as paths of the REST interface have it.
func (b *Broker) path() string {
	return strings.Replace(b.topic, "://", "/", 1)
}

// No message is lost, doubled or out of order, though the topic's bundle is unloaded again and again.
func unload(b *Broker) error {
	consumer, err := b.consumer(pulsar.Exclusive)
	if err != nil {
		return err
	}
	defer consumer.Close()
	producer, err := b.CreateProducer(pulsar.ProducerOptions{Topic: b.topic})
	if err != nil {
		return err
	}
	defer producer.Close()
	bundle, err := b.request("GET", "/lookup/v2/topic/"+b.path()+"/bundle", "")
	if err != nil {
		return err
	}
	namespace := strings.Join(strings.Split(b.path(), "/")[1:3], "/")
	for from := 0; from < count; from += count / 4 {
		if err := sendNumbers(producer, from, from+count/4); err != nil {
			return err
		}
		path := "/admin/v2/namespaces/" + namespace + "/" + strings.Trim(bundle, "\"\n") + "/unload"
		if _, err := b.request("PUT", path, ""); err != nil {
			return err
		}
	}
	// what was delivered and not yet acknowledged may come again after an unload
	next := 0
	for next < count {
		number, message, err := receive(consumer)
		if err != nil {
			return fmt.Errorf("message %d did not come: %w", next, err)
		}
		if number > next {
			return fmt.Errorf("message %d came before %d", number, next)
		}
		if number == next {
			next++
		}
		if err := consumer.Ack(message); err != nil {
			return err
		}
	}
	return nil
}

// A subscription seeks to a message, which comes next, and to a time, after which only later messages come.
func seek(b *Broker) error {
	consumer, err := b.consumer(pulsar.Exclusive)
	if err != nil {
		return err
	}
	defer consumer.Close()
	producer, err := b.CreateProducer(pulsar.ProducerOptions{Topic: b.topic, DisableBatching: true})
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := sendNumbers(producer, 0, 10); err != nil {
		return err
	}
	var fifth pulsar.MessageID
	var published time.Time
	for wanted := 0; wanted < 10; wanted++ {
		number, message, err := receive(consumer)
		if err != nil || number != wanted {
			return fmt.Errorf("message %d came instead of %d: %w", number, wanted, err)
		}
		if number == 5 {
			fifth = message.ID()
		}
		published = message.PublishTime()
	}
	if err := consumer.Seek(fifth); err != nil {
		return err
	}
	if err := receiveInOrder(consumer, 5, 10); err != nil {
		return fmt.Errorf("after a seek to message 5: %w", err)
	}
	// times have milliseconds: the messages after this line are of a later one
	for time.Now().UnixMilli() <= published.UnixMilli()+1 {
		time.Sleep(time.Millisecond)
	}
	if err := sendNumbers(producer, 10, 20); err != nil {
		return err
	}
	if err := receiveInOrder(consumer, 10, 20); err != nil {
		return err
	}
	if err := consumer.SeekByTime(published.Add(time.Millisecond)); err != nil {
		return err
	}
	if err := receiveInOrder(consumer, 10, 20); err != nil {
		return fmt.Errorf("after a seek to a time: %w", err)
	}
	return nil
}

// A reader reads all messages from the earliest on, and knows when there are no more.
func reader(b *Broker) error {
	if err := b.produced(); err != nil {
		return err
	}
	reading, err := b.CreateReader(pulsar.ReaderOptions{Topic: b.topic, StartMessageID: pulsar.EarliestMessageID()})
	if err != nil {
		return err
	}
	defer reading.Close()
	for wanted := 0; wanted < count; wanted++ {
		ctx, cancel := within()
		message, err := reading.Next(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("message %d did not come: %w", wanted, err)
		}
		if string(message.Payload()) != strconv.Itoa(wanted) {
			return fmt.Errorf("message %s came instead of %d", message.Payload(), wanted)
		}
	}
	if reading.HasNext() {
		return fmt.Errorf("the reader expects more than %d messages", count)
	}
	return nil
}

// All partitions together have all messages, those of a key in order.
func partitionedTopic(b *Broker) error {
	if _, err := b.request("PUT", "/admin/v2/"+b.path()+"/partitions", "3"); err != nil {
		return err
	}
	partitions, err := b.TopicPartitions(b.topic)
	if err != nil || len(partitions) != 3 {
		return fmt.Errorf("the topic has the partitions %v, not 3: %w", partitions, err)
	}
	return keyShared(b)
}

// A table view has the last value of each key, of before it was opened and of after.
func tableView(b *Broker) error {
	// the client sends the schema of bytes to the broker, so producers need it as well: a consumer with a schema
	// cannot attach to a topic that has messages and no schema
	bytes := pulsar.NewBytesSchema(nil)
	producer, err := b.CreateProducer(pulsar.ProducerOptions{Topic: b.topic, Schema: bytes})
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := sendNumbers(producer, 0, count); err != nil {
		return err
	}
	view, err := b.CreateTableView(pulsar.TableViewOptions{
		Topic: b.topic, Schema: bytes, SchemaValueType: reflect.TypeOf([]byte(nil)),
	})
	if err != nil {
		return err
	}
	defer view.Close()
	if err := sendNumbers(producer, count, count+5); err != nil {
		return err
	}
	wanted := map[string]string{}
	for number := count - 10; number < count+5; number++ {
		wanted[strconv.Itoa(number%10)] = strconv.Itoa(number)
	}
	deadline := time.Now().Add(patience)
	for {
		found := map[string]string{}
		for key, value := range view.Entries() {
			found[key] = string(value.([]byte))
		}
		if reflect.DeepEqual(found, wanted) {
			return nil
		}
		if time.Now().After(deadline) {
			text, _ := json.Marshal(found)
			return fmt.Errorf("the table view has %s", text)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
