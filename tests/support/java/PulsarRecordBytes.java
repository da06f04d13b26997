package org.apache.bookkeeper.mledger.impl;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import java.util.Map;
import java.util.TreeMap;
import org.apache.bookkeeper.mledger.MetadataCompressionConfig;
import org.apache.bookkeeper.mledger.proto.BatchedEntryDeletionIndexInfo;
import org.apache.bookkeeper.mledger.proto.LongListMap;
import org.apache.bookkeeper.mledger.proto.ManagedCursorInfo;
import org.apache.bookkeeper.mledger.proto.ManagedCursorInfoMetadata;
import org.apache.bookkeeper.mledger.proto.ManagedLedgerInfo;
import org.apache.bookkeeper.mledger.proto.MessageRange;
import org.apache.bookkeeper.mledger.proto.PositionInfo;
import org.apache.pulsar.common.compression.CompressionCodecProvider;
import org.apache.pulsar.metadata.api.MetadataStore;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.impl.LocalMemoryMetadataStore;

/** Prints what Pulsar's own classes store of managed ledgers and cursors: a line is a name and bytes in hexadecimal. With
 * arguments, a name and hexadecimal digits each, it instead parses each value by Pulsar's `MetaStoreImpl` and prints it
 * again as Pulsar writes it. It lies in their package because the metadata of ledgers is not public. */
public class PulsarRecordBytes {

    private static final String[] COMPRESSIONS = {"NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"};

    /** Ends the process even after an error: a metadata store has threads that would keep it. */
    public static void main(String[] args) {
        try {
            work(args);
            System.exit(0);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static void work(String[] args) throws Exception {
        if (args.length > 0) {
            for (int i = 0; i < args.length; i += 2) {
                print(args[i], again(args[i], ByteBufUtil.decodeHexDump(args[i + 1])));
            }
            return;
        }
        for (String compression : COMPRESSIONS) {
            print("ledgers-" + compression, metaStore(compression).compressLedgerInfo(ledgers()));
            print("cursor-" + compression, metaStore(compression).compressCursorInfo(cursor(-1)));
        }
        print("ledgers-offloaded", offloaded().toByteArray());
        print("cursor-in-ledger", cursor(77).toByteArray());
        print("position-ranges", position(false).toByteArray());
        print("position-words", position(true).toByteArray());
        marks("marks-topic", LedgerMetadataUtils.buildBaseManagedLedgerMetadata("t/n/persistent/a%2Fb"));
        marks("marks-cursor", LedgerMetadataUtils.buildAdditionalMetadataForCursor("sub/1"));
        marks("marks-compacted", LedgerMetadataUtils.buildMetadataForCompactedLedger("persistent://t/n/a", new byte[] {1, 2}));
    }

    private static byte[] again(String kind, byte[] value) throws Exception {
        MetaStoreImpl store = metaStore("NONE");
        if (kind.startsWith("ledgers")) {
            return store.parseManagedLedgerInfo(value).toByteArray();
        }
        if (kind.startsWith("cursor")) {
            // a parsed cursor reads its texts late, from a buffer that is released where the value was compressed
            return store.parseManagedCursorInfo(plain(value)).toByteArray();
        }
        PositionInfo position = new PositionInfo();
        position.parseFrom(value);
        return position.toByteArray();
    }

    private static byte[] plain(byte[] value) {
        ByteBuf buffer = Unpooled.wrappedBuffer(value);
        if (buffer.readShort() != 0x4778) {
            return value;
        }
        ManagedCursorInfoMetadata head = new ManagedCursorInfoMetadata();
        head.parseFrom(ByteBufUtil.getBytes(buffer.readSlice(buffer.readInt())));
        try {
            return ByteBufUtil.getBytes(CompressionCodecProvider.getCompressionCodec(
                org.apache.pulsar.common.api.proto.CompressionType.valueOf(head.getCompressionType().name()))
                .decode(buffer, head.getUncompressedSize()));
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    private static MetaStoreImpl metaStore(String compression) throws Exception {
        MetadataStore memory = new LocalMemoryMetadataStore("memory:local", MetadataStoreConfig.builder().build());
        MetadataCompressionConfig config = new MetadataCompressionConfig(compression, 0);
        return new MetaStoreImpl(memory, null, config, config);
    }

    private static ManagedLedgerInfo ledgers() {
        ManagedLedgerInfo info = new ManagedLedgerInfo();
        info.addLedgerInfo().setLedgerId(7).setEntries(100).setSize(4280).setTimestamp(1_700_000_000_123L)
            .addProperty().setKey("k").setValue("v");
        info.addLedgerInfo().setLedgerId(9).setEntries(0).setSize(0).setTimestamp(0);
        info.setTerminatedPosition().setLedgerId(7).setEntryId(99);
        info.addProperty().setKey("owner").setValue("team");
        return info;
    }

    private static ManagedLedgerInfo offloaded() {
        ManagedLedgerInfo info = new ManagedLedgerInfo();
        info.addLedgerInfo().setLedgerId(7).setEntries(100).setSize(4280).setTimestamp(5)
            .setOffloadContext().setUidMsb(1).setUidLsb(2).setComplete(true).setBookkeeperDeleted(true)
            .setTimestamp(3).setDriverMetadata().setName("aws-s3");
        info.addLedgerInfo().setLedgerId(9);
        return info;
    }

    private static ManagedCursorInfo cursor(long cursorLedger) {
        ManagedCursorInfo info = new ManagedCursorInfo().setCursorsLedgerId(cursorLedger)
            .setMarkDeleteLedgerId(7).setMarkDeleteEntryId(9).setLastActive(1_700_000_000_456L);
        range(info.addIndividualDeletedMessage(), 19, 20);
        range(info.addIndividualDeletedMessage(), 29, 35);
        info.addProperty().setName("seq").setValue(-5);
        batch(info.addBatchedEntryDeletionIndexInfo());
        info.addCursorProperty().setName("who").setValue("me");
        return info;
    }

    private static PositionInfo position(boolean words) {
        PositionInfo info = new PositionInfo().setLedgerId(7).setEntryId(9);
        if (words) {
            LongListMap acked = info.addIndividualDeletedMessageRange().setKey(7);
            acked.addValue((1L << 20) | (0x3fL << 30) | (1L << 63));
            acked.addValue(1);
        } else {
            range(info.addIndividualDeletedMessage(), 19, 20);
            range(info.addIndividualDeletedMessage(), 29, 35);
            range(info.addIndividualDeletedMessage(), 62, 64);
        }
        info.addProperty().setName("seq").setValue(-5);
        batch(info.addBatchedEntryDeletionIndexInfo());
        return info;
    }

    private static void range(MessageRange range, long after, long last) {
        range.setLowerEndpoint().setLedgerId(7).setEntryId(after);
        range.setUpperEndpoint().setLedgerId(7).setEntryId(last);
    }

    private static void batch(BatchedEntryDeletionIndexInfo info) {
        info.setPosition().setLedgerId(7).setEntryId(40);
        info.addDeleteSet(0b1111110110L);
        info.addDeleteSet(-1L);
    }

    private static void marks(String name, Map<String, byte[]> marks) {
        StringBuilder text = new StringBuilder();
        new TreeMap<>(marks).forEach((key, value) ->
            text.append(key).append('=').append(ByteBufUtil.hexDump(value)).append('\n'));
        print(name, text.toString().getBytes());
    }

    private static void print(String name, byte[] bytes) {
        System.out.println(name + " " + ByteBufUtil.hexDump(bytes));
    }
}
