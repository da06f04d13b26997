import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminBuilder;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;

/** Passes a message by each line, or lists topics where its URL is of HTTP: "url, plugin, parameters, PEM file of whom to
 * trust, topic" separated by tabs, of which the second to fourth may be blank. Answers with what arrived, or with the name
 * of the exception. */
public class ClientLines {

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            String told;
            try {
                told = words[0].startsWith("http") ? listed(words) : passed(words);
            } catch (Exception error) {
                told = error.getClass().getSimpleName();
            }
            System.out.println("answer " + told);
        }
        System.exit(0);
    }

    private static String passed(String[] words) throws Exception {
        ClientBuilder builder = PulsarClient.builder().serviceUrl(words[0])
                .operationTimeout(15, TimeUnit.SECONDS).lookupTimeout(15, TimeUnit.SECONDS);
        if (!words[1].isEmpty()) {
            builder.authentication(words[1], words[2]);
        }
        if (!words[3].isEmpty()) {
            builder.tlsTrustCertsFilePath(words[3]).enableTlsHostnameVerification(true);
        }
        try (PulsarClient client = builder.build();
                Consumer<String> consumer = client.newConsumer(Schema.STRING).topic(words[4])
                        .subscriptionName("java").subscribe();
                Producer<String> producer = client.newProducer(Schema.STRING).topic(words[4]).create()) {
            producer.send("hello");
            Message<String> message = consumer.receive(15, TimeUnit.SECONDS);
            if (message == null) {
                return "nothing";
            }
            consumer.acknowledge(message);
            return message.getValue();
        }
    }

    private static String listed(String[] words) throws Exception {
        PulsarAdminBuilder builder = PulsarAdmin.builder().serviceHttpUrl(words[0]);
        if (!words[1].isEmpty()) {
            builder.authentication(words[1], words[2]);
        }
        if (!words[3].isEmpty()) {
            builder.tlsTrustCertsFilePath(words[3]).enableTlsHostnameVerification(true);
        }
        try (PulsarAdmin admin = builder.build()) {
            return String.join(",", admin.namespaces().getNamespaces("public"));
        }
    }
}
