package barycenter.peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import py4j.GatewayServer;

/** The process that the tests start: tells its port on standard output and ends when standard input does. */
public final class PeerServer {
    private PeerServer() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String token = input.readLine();
        PrintStream answer = System.out;
        System.setOut(System.err);
        GatewayServer server = new GatewayServer.GatewayServerBuilder().javaPort(0).authToken(token).build();
        server.start();
        answer.println(server.getListeningPort());
        answer.flush();
        while (input.readLine() != null) {
            // nothing else is said there; its end is the parent's
        }
        System.exit(0);
    }
}
