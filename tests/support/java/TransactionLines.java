import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.PulsarClient;

/** Builds a client with transactions for each URL among the arguments, and prints a line with what it ended with. */
public class TransactionLines {

    public static void main(String[] urls) {
        for (String url : urls) {
            String told = "a client";
            try (PulsarClient client = PulsarClient.builder().serviceUrl(url).enableTransaction(true)
                    .operationTimeout(1, TimeUnit.HOURS).lookupTimeout(1, TimeUnit.HOURS).build()) {
                told += " of " + client.newTransaction().build().get();
            } catch (Exception error) {
                told = error.toString();
            }
            System.out.println("answer " + told);
        }
        System.exit(0);
    }
}
