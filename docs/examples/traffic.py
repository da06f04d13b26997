"""Send messages to twelve topics, orders-0 to orders-11, at 20 to 240 messages a second, until Ctrl-C."""

import sys
import time

import pulsar

TOPICS = 12
STEP_S = 0.1

url = sys.argv[1] if len(sys.argv) > 1 else "pulsar://127.0.0.1:6650"
client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
producers = [client.create_producer(f"orders-{number}", block_if_queue_full=True) for number in range(TOPICS)]
print(f"sending to {TOPICS} topics; Ctrl-C ends it", flush=True)
try:
    while True:
        for number, producer in enumerate(producers, start=1):
            for _ in range(2 * number):
                producer.send_async(b"x" * 1024, lambda result, message_id: None)
        time.sleep(STEP_S)
except KeyboardInterrupt:
    client.close()
