import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.pulsar.admin.cli.PulsarAdminTool;
import picocli.CommandLine;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;

/** Runs lines of pulsar-admin in one JVM: a line holds words separated by tabs, and is answered by how it ended, what it
 * printed and what it said of errors, the last two in base64. The line "?" is answered in the same form: a line for each
 * verb, with its group, its name, the names of its flags (an asterisk after the required ones) and its arguments,
 * separated by tabs. */
public class AdminLines {

    private static final class Tool extends PulsarAdminTool {
        Tool(Properties properties) throws Exception {
            super(properties);
        }

        boolean runs(String[] words) {
            return run(words);
        }

        boolean lists(PrintStream to) {
            for (Map.Entry<String, CommandLine> group : new TreeMap<>(commander.getSubcommands()).entrySet()) {
                for (Map.Entry<String, CommandLine> verb : new TreeMap<>(group.getValue().getSubcommands()).entrySet()) {
                    CommandSpec spec = verb.getValue().getCommandSpec();
                    boolean isAlias = !spec.name().equals(verb.getKey()) || !group.getValue().getCommandName().equals(group.getKey());
                    if (!isAlias) {
                        to.println(group.getKey() + "\t" + verb.getKey() + "\t" + flags(spec) + "\t" + arguments(spec));
                    }
                }
            }
            return true;
        }

        private static String flags(CommandSpec spec) {
            StringBuilder found = new StringBuilder();
            for (OptionSpec option : spec.options()) {
                found.append(option.longestName()).append(star(option)).append(" ");
            }
            return found.toString().strip();
        }

        private static String arguments(CommandSpec spec) {
            StringBuilder found = new StringBuilder();
            for (ArgSpec argument : spec.positionalParameters()) {
                found.append(argument.paramLabel().replace(" ", "_")).append(star(argument)).append(" ");
            }
            return found.toString().strip();
        }

        private static String star(ArgSpec argument) {
            return argument.required() ? "*" : "";
        }
    }

    /** Stays open when a verb closes it, as `broker-stats monitoring-metrics` does. */
    private static final class Open extends PrintStream {
        Open(ByteArrayOutputStream to) {
            super(to, true, StandardCharsets.UTF_8);
        }

        @Override
        public void close() {
            flush();
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        Properties properties = new Properties();
        properties.setProperty("webServiceUrl", args[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        System.setOut(new Open(printed));
        System.setErr(new Open(errors));
        Tool tool = new Tool(properties);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            printed.reset();
            errors.reset();
            boolean ended = line.equals("?") ? tool.lists(System.out) : tool.runs(line.split("\t", -1));
            answers.println(ended + " " + encoded(printed) + " " + encoded(errors));
            answers.flush();
        }
        System.exit(0);
    }

    private static String encoded(ByteArrayOutputStream text) {
        return "=" + Base64.getEncoder().encodeToString(text.toByteArray());
    }
}
