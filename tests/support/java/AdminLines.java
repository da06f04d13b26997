import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Properties;
import org.apache.pulsar.admin.cli.PulsarAdminTool;

/** Runs lines of pulsar-admin in one JVM: a line holds words separated by tabs, and is answered by how it ended, what it
 * printed and what it said of errors, the last two in base64. */
public class AdminLines {

    private static final class Tool extends PulsarAdminTool {
        Tool(Properties properties) throws Exception {
            super(properties);
        }

        boolean runs(String[] words) {
            return run(words);
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        Properties properties = new Properties();
        properties.setProperty("webServiceUrl", args[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            ByteArrayOutputStream errors = new ByteArrayOutputStream();
            System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
            boolean ended = new Tool(properties).runs(line.split("\t", -1));
            answers.println(ended + " " + encoded(printed) + " " + encoded(errors));
            answers.flush();
        }
        System.exit(0);
    }

    private static String encoded(ByteArrayOutputStream text) {
        return "=" + Base64.getEncoder().encodeToString(text.toByteArray());
    }
}
