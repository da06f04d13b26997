import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.common.events.PulsarEvent;
import org.apache.pulsar.common.util.ObjectMapperFactory;

/** Reads the policies of topics by Pulsar's own class, and prints a line with the key and the policies of each message. */
public class PolicyEvents {

    public static void main(String[] arguments) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build();
                Reader<PulsarEvent> reader = client.newReader(Schema.AVRO(PulsarEvent.class)).topic(arguments[1])
                        .readCompacted(true).startMessageId(MessageId.earliest).create()) {
            while (reader.hasMessageAvailable()) {
                Message<PulsarEvent> message = reader.readNext();
                PulsarEvent event = message.getValue();
                Object policies = event == null ? null : event.getTopicPoliciesEvent().getPolicies();
                System.out.println("event\t" + message.getKey() + "\t" + (event == null ? "" : event.getActionType())
                        + "\t" + ObjectMapperFactory.getMapper().writer().writeValueAsString(policies));
            }
        }
        System.exit(0);
    }
}
