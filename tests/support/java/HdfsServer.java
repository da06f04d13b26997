import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** One name node and one data node on loopback; prints their address, and ends with its standard input. */
class HdfsServer {
    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        try (MiniDFSCluster cluster = new MiniDFSCluster.Builder(new Configuration(), folder).build()) {
            cluster.waitActive();
            System.out.println("serving hdfs://127.0.0.1:" + cluster.getNameNodePort());
            System.in.transferTo(java.io.OutputStream.nullOutputStream());
        }
    }
}
