"""The input of a grid as one file, which all processes of a machine map into memory, so that it is there only once.

The file has a pickle of a `Source`, with its arrays as separate parts: the number of parts, their lengths, then the
parts. One command writes and reads it, so only one version of this program does.
"""

import mmap
import pickle
import struct
from functools import lru_cache
from pathlib import Path
from typing import Final

from pulsar_barycenter.lab.inputs import Input, Source

_ALIGNED: Final = 64


def write_source(path: Path, source: Source) -> None:
    """Write `source`, the data of an input, to the file `path`. Other processes then read it with `mapped_source`,
    which maps the file into memory.

    Raises:
        OSError: the file cannot be written.
    """
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(source, protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(head), *(buffer.raw() for buffer in buffers)]
    lengths = [len(part) for part in parts]
    with path.open("wb") as file:
        file.write(struct.pack(f"<{len(parts) + 1}q", len(parts), *lengths))
        for part in parts:
            file.write(bytes(-file.tell() % _ALIGNED))
            file.write(part)


def mapped_source(path: Path) -> Source:
    """Return the data in a file that `write_source` wrote; its arrays are read-only, and loaded from the disk when they
    are used.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    (count,) = struct.unpack_from("<q", content)
    lengths = struct.unpack_from(f"<{count}q", content, 8)
    parts, at = [], 8 * (count + 1)
    for length in lengths:
        at += -at % _ALIGNED
        parts.append(content[at : at + length])
        at += length
    found: Source = pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301 - this command wrote it
    return found


@lru_cache(maxsize=1)
def _source_in(path: Path) -> Source:
    return mapped_source(path)


@lru_cache(maxsize=1)
def shared_input(path: Path, seed: int) -> Input:
    """Return the input of a replay for a seed, made from the data in the file `path`. A process keeps the last input in
    memory, so that another call with the same arguments is fast.

    Raises:
        OSError: the file cannot be read.
    """
    return _source_in(path).input(seed)
