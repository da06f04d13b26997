// Programs for one feature each: node main.js FEATURE HOST:PORT WEB_URL TOPIC. Ends with 0 if the feature holds.
'use strict';

const assert = require('node:assert/strict');
const { setTimeout: sleep } = require('node:timers/promises');
const { Producer, Consumer } = require('pulsar-flex');

const silent = () => () => {};

const FEATURES = {
  exclusive: async (test) => {
    const consumer = await test.consumer('EXCLUSIVE');
    await test.send('one', 'two', 'three');
    await consumer.until(3);
    assert.deepEqual(consumer.payloads(), ['one', 'two', 'three']);
    assert.deepEqual(consumer.received[0].properties, { number: '0' });
    await test.acknowledgedAll();
  },
  batch: async (test) => {
    const consumer = await test.consumer('EXCLUSIVE');
    const messages = ['one', 'two', 'three'].map((payload) => ({ payload, properties: { of: payload } }));
    await test.producer.sendBatch({ messages });
    await consumer.until(3);
    assert.deepEqual(consumer.payloads(), ['one', 'two', 'three']);
    assert.deepEqual(consumer.received[2].properties, { of: 'three' });
    await test.acknowledgedAll();
  },
  cumulative_ack: async (test) => {
    const consumer = await test.consumer('EXCLUSIVE', async ({ message, ack }) => {
      if (String(message) === 'last') await ack({ type: Consumer.ACK_TYPES.CUMULATIVE });
    });
    await test.send('one', 'two', 'last');
    await consumer.until(3);
    await test.acknowledgedAll();
  },
  shared: async (test) => {
    const consumers = [await test.consumer('SHARED'), await test.consumer('SHARED')];
    const sent = Array.from({ length: 40 }, (_, number) => `m${number}`);
    await test.send(...sent);
    await test.acknowledgedAll();
    const received = consumers.flatMap((consumer) => consumer.payloads());
    assert.deepEqual(received.sort(), sent.sort());
    assert.ok(consumers.every((consumer) => consumer.received.length > 0));
  },
  failover: async (test) => {
    const consumers = [await test.consumer('FAILOVER', undefined, 'a'), await test.consumer('FAILOVER', undefined, 'b')];
    await test.send('one', 'two');
    await test.acknowledgedAll();
    const [first, second] = consumers[0].received.length ? consumers : consumers.toReversed();
    assert.deepEqual([first.payloads(), second.payloads()], [['one', 'two'], []]);
    first.leave();
    await test.send('three');
    await second.until(1);
    assert.deepEqual(second.payloads(), ['three']);
  },
  negative_ack: async (test) => {
    const consumer = await test.consumer('SHARED', async ({ redeliveryCount, ack }) =>
      ack(redeliveryCount > 0 ? {} : { type: Consumer.ACK_TYPES.NEGATIVE }),
    );
    await test.send('one');
    await consumer.until(2);
    assert.deepEqual(consumer.received.map((message) => message.redeliveryCount), [0, 1]);
    await test.acknowledgedAll();
  },
  unload: async (test) => {
    const consumer = await test.consumer('EXCLUSIVE');
    await test.send('before');
    await consumer.until(1);
    await test.acknowledgedAll();
    await test.request('PUT', 'unload');
    await test.send('after');
    await consumer.until(2);
    assert.deepEqual([...new Set(consumer.payloads())], ['before', 'after']);
    await test.acknowledgedAll();
  },
};

class Test {
  constructor(address, web, topic) {
    this.options = { topic, discoveryServers: [address], logCreator: silent };
    this.admin = `${web}/admin/v2/${topic.replace('://', '/')}`;
    this.sent = 0;
  }

  async begin() {
    this.producer = new Producer(this.options);
    await this.producer.create();
  }

  async send(...payloads) {
    for (const payload of payloads) {
      await this.producer.sendMessage({ payload, properties: { number: String(this.sent++) } });
    }
  }

  // A consumer that keeps what it receives, and acknowledges each message unless `answer` does something else.
  async consumer(type, answer = ({ ack }) => ack(), name = `c${Math.random()}`) {
    const consumer = new Consumer({
      ...this.options,
      subscription: 's',
      subType: Consumer.SUB_TYPES[type],
      consumerName: name,
      reconnectInterval: 200,
    });
    const received = [];
    await consumer.subscribe();
    await consumer.run({
      autoAck: false,
      onMessage: async (message) => {
        received.push(message);
        await answer(message);
      },
    });
    return {
      received,
      payloads: () => received.map(({ message }) => Buffer.from(message).toString()),
      until: (count) => until(() => received.length >= count, () => `${count} messages; there are ${received.length}`),
      leave: () => {
        consumer._setState(Consumer.CONSUMER_STATES.UNSUBSCRIBED);
        consumer._client.getCnx().close();
      },
    };
  }

  async request(method, path) {
    const answer = await fetch(`${this.admin}/${path}`, { method });
    assert.ok(answer.ok, `${method} ${path}: ${answer.status}`);
    return answer;
  }

  async acknowledgedAll() {
    const backlog = async () => (await (await this.request('GET', 'stats')).json()).subscriptions.s.msgBacklog;
    await until(async () => (await backlog()) === 0, () => 'no backlog');
  }
}

async function until(holds, what) {
  for (const end = Date.now() + 60_000; Date.now() < end; await sleep(50)) {
    if (await holds()) return;
  }
  throw new Error(`not within 60 s: ${what()}`);
}

async function main([feature, ...where]) {
  const test = new Test(...where);
  await test.begin();
  await FEATURES[feature](test);
}

main(process.argv.slice(2)).then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
