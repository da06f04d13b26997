package org.apache.bookkeeper.proto;

import com.google.protobuf.ByteString;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import io.netty.buffer.UnpooledByteBufAllocator;
import io.netty.util.ReferenceCounted;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.bookkeeper.client.LedgerMetadataBuilder;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.meta.LedgerMetadataSerDe;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.proto.DataFormats.LedgerMetadataFormat;
import org.apache.bookkeeper.proto.checksum.DigestManager;
import org.apache.bookkeeper.util.ByteBufList;
import org.apache.bookkeeper.util.StringUtils;

/** Prints what BookKeeper's own classes write: a line is a name and bytes in hexadecimal. It lies in their package
 * because the constructors of answers are not public. */
public class BookKeeperBytes {

    private static final byte[] PASSWORD = "secret".getBytes(StandardCharsets.UTF_8);
    private static final byte[] DATA = "0123456789".getBytes(StandardCharsets.UTF_8);
    private static final long LEDGER = 0x1122334455L;
    private static final byte V2 = 2;

    public static void main(String[] args) throws Exception {
        keys();
        entries();
        requests();
        answers();
        ledgers();
        paths();
    }

    private static void keys() throws Exception {
        print("key", DigestManager.generateMasterKey(PASSWORD));
        print("key-empty", DigestManager.generateMasterKey(new byte[0]));
    }

    /** Whole add requests: head, master key and body. */
    private static void entries() throws Exception {
        byte[] key = DigestManager.generateMasterKey(PASSWORD);
        for (LedgerMetadataFormat.DigestType type : LedgerMetadataFormat.DigestType.values()) {
            DigestManager digests =
                DigestManager.instantiate(LEDGER, PASSWORD, type, UnpooledByteBufAllocator.DEFAULT, true);
            ReferenceCounted ready =
                digests.computeDigestAndPackageForSending(7, 5, 123, Unpooled.wrappedBuffer(DATA), key, 0);
            print("add-" + type, bytes(ready));
        }
        DigestManager digests = DigestManager.instantiate(
            LEDGER, PASSWORD, LedgerMetadataFormat.DigestType.CRC32C, UnpooledByteBufAllocator.DEFAULT, true);
        int flags = BookieProtocol.FLAG_RECOVERY_ADD | BookieProtocol.FLAG_HIGH_PRIORITY;
        print("add-recovery", bytes(digests.computeDigestAndPackageForSending(
            0, -1, 0, Unpooled.EMPTY_BUFFER, key, flags)));
    }

    private static void requests() throws Exception {
        byte[] key = DigestManager.generateMasterKey(PASSWORD);
        short fencing = BookieProtocol.FLAG_DO_FENCING | BookieProtocol.FLAG_HIGH_PRIORITY;
        request("read", BookieProtocol.ReadRequest.create(V2, LEDGER, 7, (short) 0, null));
        request("read-last", BookieProtocol.ReadRequest.create(V2, LEDGER, -1, (short) 0, null));
        request("read-fencing", BookieProtocol.ReadRequest.create(V2, LEDGER, -1, fencing, key));
        request("read-batch", BookieProtocol.BatchedReadRequest.create(
            V2, LEDGER, 7, (short) 0, null, 99, 10, 1 << 20));
        request("auth", new BookieProtocol.AuthRequest(V2, message()));
    }

    private static BookkeeperProtocol.AuthMessage message() {
        return BookkeeperProtocol.AuthMessage.newBuilder()
            .setAuthPluginName("plugin").setPayload(ByteString.copyFrom(DATA)).build();
    }

    private static void request(String name, Object request) throws Exception {
        Object made = new BookieProtoEncoding.RequestEnDeCoderPreV3(null)
            .encode(request, UnpooledByteBufAllocator.DEFAULT);
        print(name, bytes(made));
    }

    private static void answers() throws Exception {
        answer("answer-add", BookieProtocol.AddResponse.create(V2, BookieProtocol.EOK, LEDGER, 7));
        answer("answer-fenced", BookieProtocol.AddResponse.create(V2, BookieProtocol.EFENCED, LEDGER, 7));
        answer("answer-read", new BookieProtocol.ReadResponse(
            V2, BookieProtocol.EOK, LEDGER, 7, Unpooled.wrappedBuffer(DATA)));
        answer("answer-none", new BookieProtocol.ReadResponse(V2, BookieProtocol.ENOENTRY, LEDGER, -1));
        ByteBufList list = ByteBufList.get(Unpooled.wrappedBuffer(DATA), Unpooled.wrappedBuffer(PASSWORD));
        answer("answer-batch", new BookieProtocol.BatchedReadResponse(V2, BookieProtocol.EOK, LEDGER, 7, 99, list));
        answer("answer-batch-none", new BookieProtocol.BatchedReadResponse(
            V2, BookieProtocol.ENOENTRY, LEDGER, 7, 99));
        answer("answer-auth", new BookieProtocol.AuthResponse(V2, message()));
    }

    private static void answer(String name, Object answer) throws Exception {
        Object made = new BookieProtoEncoding.ResponseEnDeCoderPreV3(null)
            .encode(answer, UnpooledByteBufAllocator.DEFAULT);
        print(name, framed(bytes(made)));
    }

    /** Some answers carry their size already, to others a later handler adds it. */
    private static byte[] framed(byte[] made) {
        ByteBuf buffer = Unpooled.wrappedBuffer(made);
        if (made.length >= 4 && buffer.getInt(0) == made.length - 4) {
            return made;
        }
        ByteBuf whole = Unpooled.buffer(made.length + 4).writeInt(made.length).writeBytes(made);
        return ByteBufUtil.getBytes(whole);
    }

    private static void ledgers() throws Exception {
        List<BookieId> first = List.of(BookieId.parse("a:3181"), BookieId.parse("b:3181"), BookieId.parse("c:3181"));
        List<BookieId> second = List.of(BookieId.parse("a:3181"), BookieId.parse("d:3181"), BookieId.parse("c:3181"));
        for (int version = 1; version <= 3; version++) {
            ledger("ledger-open-" + version, made(version, first).build());
            ledger("ledger-recovering-" + version,
                made(version, first).newEnsembleEntry(100, second).withInRecoveryState().build());
            ledger("ledger-closed-" + version, made(version, first).newEnsembleEntry(100, second)
                .withClosedState().withLastEntryId(499).withLength(51234).build());
        }
        ledger("ledger-rich", made(3, first).withAckQuorumSize(1).withCToken(-77)
            .withCreationTime(1_700_000_000_000L).storingCreationTime(true)
            .withCustomMetadata(Map.of("application", "pulsar".getBytes(StandardCharsets.UTF_8))).build());
    }

    private static LedgerMetadataBuilder made(int version, List<BookieId> first) {
        LedgerMetadataBuilder builder = LedgerMetadataBuilder.create().withId(3).withMetadataFormatVersion(version)
            .withEnsembleSize(3).withWriteQuorumSize(2).withAckQuorumSize(2).newEnsembleEntry(0, first);
        return version == 1 ? builder : builder.withDigestType(DigestType.CRC32C).withPassword(PASSWORD);
    }

    private static void ledger(String name, LedgerMetadata metadata) throws Exception {
        print(name, new LedgerMetadataSerDe().serialize(metadata));
    }

    private static void paths() {
        for (long id : new long[] {0, 2, 1234567890, Integer.MAX_VALUE - 1L, Integer.MAX_VALUE, LEDGER}) {
            print("path-" + id, StringUtils.getHybridHierarchicalLedgerPath(id).getBytes(StandardCharsets.UTF_8));
            print("long-path-" + id, StringUtils.getLongHierarchicalLedgerPath(id).getBytes(StandardCharsets.UTF_8));
        }
    }

    private static byte[] bytes(Object made) {
        return made instanceof ByteBufList ? ((ByteBufList) made).toArray() : ByteBufUtil.getBytes((ByteBuf) made);
    }

    private static void print(String name, byte[] bytes) {
        System.out.println(name + " " + ByteBufUtil.hexDump(bytes));
    }
}
