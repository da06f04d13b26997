package main

import (
	"errors"
	"fmt"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	orderSchema = `{"type":"record","name":"Order","fields":[{"name":"id","type":"int"}]}`
	grownSchema = `{"type":"record","name":"Order","fields":[{"name":"id","type":"int"},` +
		`{"name":"note","type":"string","default":"none"}]}`
	otherSchema = `{"type":"record","name":"Order","fields":[{"name":"id","type":{"type":"array","items":"string"}}]}`
)

type order struct {
	ID int `json:"id" avro:"id"`
}

type grownOrder struct {
	ID   int    `json:"id" avro:"id"`
	Note string `json:"note" avro:"note"`
}

func schemaJSON(b *Broker) error {
	return b.schema(func(text string) pulsar.Schema { return pulsar.NewJSONSchema(text, nil) })
}

func schemaAvro(b *Broker) error {
	return b.schema(func(text string) pulsar.Schema { return pulsar.NewAvroSchema(text, nil) })
}

// A schema grows by a field with a default, of which consumers learn the version; one that contradicts is refused.
func (b *Broker) schema(of func(string) pulsar.Schema) error {
	consumer, err := b.Subscribe(pulsar.ConsumerOptions{
		Topic: b.topic, SubscriptionName: "s", Schema: of(orderSchema),
	})
	if err != nil {
		return err
	}
	defer consumer.Close()
	values := []struct {
		schema string
		value  any
	}{{orderSchema, &order{ID: 1}}, {grownSchema, &grownOrder{ID: 2, Note: "new"}}}
	for _, sent := range values {
		if err := b.sendValue(of(sent.schema), sent.value); err != nil {
			return err
		}
	}
	if err := b.sendValue(of(otherSchema), nil); err == nil {
		return errors.New("a producer with an incompatible schema was let in")
	}
	if other, err := b.Subscribe(pulsar.ConsumerOptions{
		Topic: b.topic, SubscriptionName: "other", Schema: of(otherSchema),
	}); err == nil {
		other.Close()
		return errors.New("a consumer with an incompatible schema was let in")
	}
	versions := map[string]bool{}
	for wanted := 1; wanted <= 2; wanted++ {
		ctx, cancel := within()
		message, err := consumer.Receive(ctx)
		cancel()
		if err != nil {
			return err
		}
		var value grownOrder
		if err := message.GetSchemaValue(&value); err != nil {
			return fmt.Errorf("value %d cannot be read: %w", wanted, err)
		}
		if value.ID != wanted || (wanted == 2 && value.Note != "new") {
			return fmt.Errorf("value %d is %+v", wanted, value)
		}
		versions[string(message.SchemaVersion())] = true
	}
	if len(versions) != 2 {
		return fmt.Errorf("the messages name %d versions of the schema, not 2", len(versions))
	}
	return nil
}

// sendValue sends one value by a producer with the schema; nil: it only opens the producer.
func (b *Broker) sendValue(schema pulsar.Schema, value any) error {
	producer, err := b.CreateProducer(pulsar.ProducerOptions{Topic: b.topic, Schema: schema})
	if err != nil {
		return err
	}
	defer producer.Close()
	if value == nil {
		return nil
	}
	ctx, cancel := within()
	defer cancel()
	_, err = producer.Send(ctx, &pulsar.ProducerMessage{Value: value})
	return err
}
