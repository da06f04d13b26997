import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.authentication.AuthenticationDataCommand;
import org.apache.pulsar.broker.authentication.oidc.AuthenticationProviderOpenID;

/** Judges access tokens by Pulsar's provider: arguments are its keys as key=value, each line a token, answered by
 * "VERDICT believed ROLE" or "VERDICT refused REASON"; a token without a role counts as refused, as a broker does. */
public class OpenIdVerdicts {

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        for (String arg : args) {
            int at = arg.indexOf('=');
            properties.setProperty(arg.substring(0, at), arg.substring(at + 1));
        }
        ServiceConfiguration configuration = new ServiceConfiguration();
        configuration.setProperties(properties);
        try (AuthenticationProviderOpenID provider = new AuthenticationProviderOpenID()) {
            provider.initialize(configuration);
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String token = lines.readLine(); token != null; token = lines.readLine()) {
                String verdict;
                try {
                    String role = provider.authenticateAsync(new AuthenticationDataCommand(token)).get();
                    verdict = role == null ? "refused no role" : "believed " + role;
                } catch (ExecutionException refusal) {
                    verdict = "refused " + String.valueOf(refusal.getCause().getMessage()).replace('\n', ' ');
                }
                System.out.println("VERDICT " + verdict);
                System.out.flush();
            }
        }
        System.exit(0);
    }
}
