package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

func (b *Broker) consumer(kind pulsar.SubscriptionType) (pulsar.Consumer, error) {
	return b.Subscribe(pulsar.ConsumerOptions{
		Topic:                       b.topic,
		SubscriptionName:            "s",
		Type:                        kind,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
		NackRedeliveryDelay:         100 * time.Millisecond,
		StartMessageIDInclusive:     true, // otherwise the client drops the message to which it seeks
	})
}

// A second consumer is refused, and the first has all messages in order.
func exclusive(b *Broker) error {
	consumer, err := b.consumer(pulsar.Exclusive)
	if err != nil {
		return err
	}
	defer consumer.Close()
	if second, err := b.consumer(pulsar.Exclusive); err == nil {
		second.Close()
		return errors.New("a second consumer of an exclusive subscription was let in")
	}
	if err := b.produced(); err != nil {
		return err
	}
	return receiveInOrder(consumer, 0, count)
}

// Two consumers have all messages between them, each message once.
func shared(b *Broker) error {
	seen, _, err := b.divided(pulsar.Shared)
	if err == nil && len(seen[0])*len(seen[1]) == 0 {
		err = fmt.Errorf("the consumers have %d and %d messages, not some each", len(seen[0]), len(seen[1]))
	}
	return err
}

// All messages of a key go to one consumer, in order.
func keyShared(b *Broker) error {
	seen, owners, err := b.divided(pulsar.KeyShared)
	if err != nil {
		return err
	}
	for key, consumers := range owners {
		if len(consumers) != 1 {
			return fmt.Errorf("key %s went to %d consumers", key, len(consumers))
		}
	}
	for _, numbers := range seen {
		last := map[int]int{}
		for _, number := range numbers {
			if before, found := last[number%10]; found && before > number {
				return fmt.Errorf("message %d came after %d of the same key", number, before)
			}
			last[number%10] = number
		}
	}
	return nil
}

// divided returns what each of two consumers received, and the consumers of each key.
func (b *Broker) divided(kind pulsar.SubscriptionType) ([2][]int, map[string]map[int]bool, error) {
	var seen [2][]int
	owners := map[string]map[int]bool{}
	var consumers [2]pulsar.Consumer
	for index := range consumers {
		consumer, err := b.consumer(kind)
		if err != nil {
			return seen, owners, err
		}
		defer consumer.Close()
		consumers[index] = consumer
	}
	if err := b.produced(); err != nil {
		return seen, owners, err
	}
	all := map[int]bool{}
	ctx, cancel := within()
	defer cancel()
	for len(all) < count {
		var came pulsar.ConsumerMessage
		select {
		case came = <-consumers[0].Chan():
		case came = <-consumers[1].Chan():
		case <-ctx.Done():
			return seen, owners, fmt.Errorf("%d of %d messages came", len(all), count)
		}
		index := 0
		if came.Consumer == consumers[1] {
			index = 1
		}
		number, err := strconv.Atoi(string(came.Payload()))
		if err != nil {
			return seen, owners, err
		}
		if all[number] {
			return seen, owners, fmt.Errorf("message %d came twice", number)
		}
		all[number] = true
		seen[index] = append(seen[index], number)
		if owners[came.Key()] == nil {
			owners[came.Key()] = map[int]bool{}
		}
		owners[came.Key()][index] = true
		if err := consumers[index].Ack(came.Message); err != nil {
			return seen, owners, err
		}
	}
	return seen, owners, nil
}

// The second consumer goes on where the first one stopped.
func failover(b *Broker) error {
	first, err := b.consumer(pulsar.Failover)
	if err != nil {
		return err
	}
	second, err := b.consumer(pulsar.Failover)
	if err != nil {
		return err
	}
	defer second.Close()
	producer, err := b.CreateProducer(pulsar.ProducerOptions{Topic: b.topic, DisableBatching: true})
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := sendNumbers(producer, 0, count/2); err != nil {
		return err
	}
	active, standby := first, second
	select {
	case came := <-first.Chan():
		err = firstOf(first, came)
	case came := <-second.Chan():
		active, standby = second, first
		defer first.Close()
		err = firstOf(second, came)
	case <-time.After(patience):
		err = errors.New("no consumer received a message")
	}
	if err != nil {
		return err
	}
	if err := receiveInOrder(active, 1, count/2); err != nil {
		return err
	}
	active.Close()
	if err := sendNumbers(producer, count/2, count); err != nil {
		return err
	}
	return receiveInOrder(standby, count/2, count)
}

func firstOf(consumer pulsar.Consumer, came pulsar.ConsumerMessage) error {
	if string(came.Payload()) != "0" {
		return fmt.Errorf("message %s came first", came.Payload())
	}
	return consumer.Ack(came.Message)
}

// A message that is refused comes again, and its number of redeliveries grows.
func negativeAck(b *Broker) error {
	consumer, err := b.consumer(pulsar.Shared)
	if err != nil {
		return err
	}
	defer consumer.Close()
	producer, err := b.CreateProducer(pulsar.ProducerOptions{Topic: b.topic})
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := sendNumbers(producer, 0, 1); err != nil {
		return err
	}
	for wanted := uint32(0); wanted < 3; wanted++ {
		_, message, err := receive(consumer)
		if err != nil {
			return err
		}
		if message.RedeliveryCount() != wanted {
			return fmt.Errorf("the message was redelivered %d times, not %d", message.RedeliveryCount(), wanted)
		}
		consumer.Nack(message)
	}
	return nil
}

// A message that is refused more often than the policy allows goes to the dead letter topic, and the others do not.
func deadLetter(b *Broker) error {
	letters, err := b.Subscribe(pulsar.ConsumerOptions{Topic: b.topic + "-dead", SubscriptionName: "letters"})
	if err != nil {
		return err
	}
	defer letters.Close()
	consumer, err := b.Subscribe(pulsar.ConsumerOptions{
		Topic:               b.topic,
		SubscriptionName:    "s",
		Type:                pulsar.Shared,
		NackRedeliveryDelay: 100 * time.Millisecond,
		DLQ:                 &pulsar.DLQPolicy{MaxDeliveries: 3, DeadLetterTopic: b.topic + "-dead"},
	})
	if err != nil {
		return err
	}
	defer consumer.Close()
	if err := b.produced(); err != nil {
		return err
	}
	deliveries := map[int]int{}
	bad := 17
	for len(deliveries) < count || deliveries[bad] < 3 {
		number, message, err := receive(consumer)
		if err != nil {
			return fmt.Errorf("%d messages came, number %d %d times: %w", len(deliveries), bad, deliveries[bad], err)
		}
		deliveries[number]++
		if number == bad {
			consumer.Nack(message)
		} else if err := consumer.Ack(message); err != nil {
			return err
		}
	}
	number, message, err := receive(letters)
	if err != nil {
		return fmt.Errorf("no dead letter came: %w", err)
	}
	if number != bad || deliveries[bad] != 3 {
		return fmt.Errorf("the dead letter is %d, after %d deliveries of %d", number, deliveries[bad], bad)
	}
	return letters.Ack(message)
}

// The messages of a batch that were acknowledged do not come again after the consumer was closed; the others do.
func partsOfABatch(b *Broker) error {
	options := pulsar.ConsumerOptions{
		Topic:                          b.topic,
		SubscriptionName:               "s",
		Type:                           pulsar.Shared,
		EnableBatchIndexAcknowledgment: true,
		AckWithResponse:                true,
	}
	consumer, err := b.Subscribe(options)
	if err != nil {
		return err
	}
	producer, err := b.CreateProducer(pulsar.ProducerOptions{
		Topic: b.topic, BatchingMaxMessages: 10, BatchingMaxPublishDelay: time.Hour,
	})
	if err != nil {
		return err
	}
	defer producer.Close()
	for number := 0; number < 10; number++ {
		message := pulsar.ProducerMessage{Payload: []byte(strconv.Itoa(number))}
		producer.SendAsync(context.Background(), &message, func(pulsar.MessageID, *pulsar.ProducerMessage, error) {})
	}
	if err := producer.FlushWithCtx(context.Background()); err != nil {
		return err
	}
	for wanted := 0; wanted < 10; wanted++ {
		number, message, err := receive(consumer)
		if err != nil {
			return err
		}
		if size := message.ID().BatchSize(); size != 10 {
			return fmt.Errorf("message %d is of a batch of %d messages, not 10", number, size)
		}
		if number%2 == 0 {
			if err := consumer.Ack(message); err != nil {
				return err
			}
		}
	}
	consumer.Close()
	if consumer, err = b.Subscribe(options); err != nil {
		return err
	}
	defer consumer.Close()
	for wanted := 1; wanted < 10; wanted += 2 {
		number, _, err := receive(consumer)
		if err != nil {
			return fmt.Errorf("message %d did not come again: %w", wanted, err)
		}
		if number != wanted {
			return fmt.Errorf("message %d came again instead of %d", number, wanted)
		}
	}
	return nil
}
