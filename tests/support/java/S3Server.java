import java.net.URI;
import org.gaul.s3proxy.S3Proxy;
import org.gaul.s3proxy.auth.AuthenticationType;
import org.gaul.s3proxy.nio2blob.TransientNio2BlobStore;

/** An S3 API over memory, on loopback, with one bucket; prints its endpoint, and ends with its standard input. */
class S3Server {
    public static void main(String[] arguments) throws Exception {
        TransientNio2BlobStore store = new TransientNio2BlobStore();
        store.createContainer(arguments[2]);
        S3Proxy server = S3Proxy.builder()
            .blobStore(store)
            .endpoint(URI.create("http://127.0.0.1:0"))
            .awsAuthentication(AuthenticationType.AWS_V4, arguments[0], arguments[1])
            .build();
        server.start();
        System.out.println("serving http://127.0.0.1:" + server.getPort());
        System.in.transferTo(java.io.OutputStream.nullOutputStream());
        server.stop();
    }
}
