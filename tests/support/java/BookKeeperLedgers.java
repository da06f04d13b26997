import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Enumeration;
import java.util.HexFormat;
import java.util.concurrent.CountDownLatch;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/** BookKeeper's own client: `write` entries in a burst, print the ledger and the last confirmed entry, and end as by a
 * crash; or `recover` a ledger, read all of it, and print its last entry, its length and a hash of its data. */
public class BookKeeperLedgers {

    private static final byte[] PASSWORD = "secret".getBytes(StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        ClientConfiguration configuration = new ClientConfiguration();
        configuration.setMetadataServiceUri("zk+hierarchical://" + args[0] + "/ledgers");
        configuration.setUseV2WireProtocol(true);
        BookKeeper client = new BookKeeper(configuration);
        if (args[1].equals("write")) {
            write(client, Integer.parseInt(args[2]), BookKeeper.DigestType.valueOf(args[3]));
        } else {
            recover(client, Long.parseLong(args[2]), BookKeeper.DigestType.valueOf(args[3]));
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void write(BookKeeper client, int count, BookKeeper.DigestType type) throws Exception {
        LedgerHandle ledger = client.createLedger(3, 3, 2, type, PASSWORD);
        CountDownLatch missing = new CountDownLatch(count);
        for (int number = 0; number < count; number++) {
            byte[] data = ("entry-" + number).getBytes(StandardCharsets.UTF_8);
            ledger.asyncAddEntry(data, (rc, handle, entry, context) -> missing.countDown(), null);
        }
        missing.await();
        System.out.println("answer " + ledger.getId() + " " + ledger.getLastAddConfirmed());
    }

    private static void recover(BookKeeper client, long id, BookKeeper.DigestType type) throws Exception {
        LedgerHandle ledger = client.openLedger(id, type, PASSWORD);
        long last = ledger.getLastAddConfirmed();
        MessageDigest hash = MessageDigest.getInstance("SHA-256");
        if (last >= 0) {
            for (Enumeration<LedgerEntry> entries = ledger.readEntries(0, last); entries.hasMoreElements();) {
                hash.update(entries.nextElement().getEntry());
            }
        }
        System.out.println("answer " + last + " " + ledger.getLength() + " " + HexFormat.of().formatHex(hash.digest()));
    }
}
