#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets: seeds.py FOLDER makes FOLDER/TARGET/seed-N."""

import bz2
import gzip
import io
import lzma
import struct
import sys
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def instruction(ip, loads, stores, stores_max, tail=b""):
    """A ChampSim record: 2 or 4 stores, 4 loads."""
    head = struct.pack("<QBB", ip, 0, 0) + (bytes(6) if stores_max == 2 else bytes(14))
    stores = (stores + [0] * stores_max)[:stores_max]
    loads = (loads + [0] * 4)[:4]
    return head + struct.pack(f"<{stores_max + 4}Q", *stores, *loads) + tail


def entry(kind, size, value):
    """A drmemtrace record."""
    return struct.pack("<HHQ", kind, size, value)


def drmemtrace():
    head = [(25, 0, 7), (28, 12, 7), (28, 9, 0xE40), (22, 0, 501), (24, 0, 500), (28, 18, 4096), (28, 2, 10**16)]
    body = [(28, 15, 0x40001000), (28, 17, 0x7F0000001000), (47, 4, 0x1234), (10, 4, 0x401000),
            (0, 8, 0x7F0000001000), (1, 4, 0x7F0000002000), (2, 1, 0x9000),
            (48, 2, 0x401004), (22, 0, 502), (24, 0, 500), (10, 4, 0x402000), (0, 64, 0x7F0000003000), (17, 3, 0),
            (0, 8, 0xFFFF800000000000)]
    tail = [(28, 25, 231), (23, 0, 501), (26, 0, 0)]
    return b"".join(entry(*fields) for fields in head + body + tail)


def thread(identity, slices):
    """A drmemtrace file of a thread: slices are (time, instructions)."""
    records = [(25, 0, 7), (28, 12, 7), (28, 9, 0x1E40), (22, 0, identity), (24, 0, 500)]
    for time, count in slices:
        records += [(28, 2, time), (28, 3, 0), (28, 27, 1), (10, 4, 0xFFFFFFFF81000000), (28, 28, 1)]
        records += [(10, 4, 0x401000), (0, 0, 0x7000)] * count
    return b"".join(entry(*fields) for fields in records + [(23, 0, identity), (26, 0, 0)])


def folder():
    """The input of trace_folder: lengths, two files, a schedule."""
    files = [thread(501, [(10, 2), (30, 1)]), thread(502, [(20, 3)])]
    slices = [(501, 10, 0, 0), (502, 20, 0, 0), (501, 30, 0, 2)]
    files.append(b"".join(struct.pack("<4Q", *fields) for fields in slices))
    return struct.pack("<3H", *map(len, files)) + b"".join(files)


def gem5():
    """A header and two packets."""
    messages = [b"\x0a\x01m\x18\x01", b"\x08\x01\x10\x01\x18\x40\x20\x40", b"\x08\x02\x10\x04\x18\x80\x01\x20\x08"]
    return b"gem5" + b"".join(bytes([len(message)]) + message for message in messages)


def archive(name, content):
    """A zip archive of one member."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def tar(name, content):
    """A tar archive of one file."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as files:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        files.addfile(info, io.BytesIO(content))
    return file.getvalue()


def streams(controls, near, far, side, batches, block=b"", blocks=0):
    """The input of pwt_streams: lengths, the number of executed blocks, batches, and whether to write; then the streams."""
    lengths = struct.pack("<5H", len(controls), len(near), len(far), len(block), blocks)
    return lengths + bytes([batches, 0]) + controls + near + far + block + side


def message(kind, who, *words):
    """The input of capture_protocol: kind, process and thread, words."""
    return bytes([kind, who, len(words)]) + struct.pack(f"<{len(words)}Q", *words)


def elf():
    """A program of one segment that ends itself: its words for the host are behind it."""
    code = struct.pack("<6I", 0x00000297, 0x04028293, 0x00100313, 0x0062B023, 0x0000006F, 0)
    names = b"\0tohost\0"
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x11, 0, 0xFFF1, 0x80000040, 8)
    header = 64 + 56
    at = header + len(code)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, at, len(symbols), 2, 1, 8, 24)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, at + len(symbols), len(names), 0, 0, 1, 0)
    table = at + len(symbols) + len(names)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = ident + struct.pack("<HHIQQQIHHHHHH", 2, 243, 1, 0x80000000, 64, table, 0, 64, 56, 1, 64, 3, 2)
    segment = struct.pack("<IIQQQQQQ", 1, 7, header, 0x80000000, 0x80000000, len(code), 4096, 4096)
    return head + segment + code + symbols + names + sections


def seeds():
    champsim = [instruction(0x401000, [0x7F0000001000, 0x7F0000002004], [], 2),
                instruction(0x401004, [], [0x600010, 0x7FFD00000FF8], 2),
                instruction(0x401008, [0xFFFF880000001000], [], 2)]
    cloudsuite = [instruction(0x1000, [0x100000], [0x200000, 0x200008], 4, bytes([0, 0]) + bytes(6)),
                  instruction(0x1004, [0x100008], [], 4, bytes([1, 0]) + bytes(6))]
    lackey = "==7== Lackey\nI  04001000,3\n L 1ffe000010,8\nI  04001003,4\n S 1ffe000018,4\n M 05000ffe,10\n==7== \n"
    # Two batches: 3 accesses and a count; a thread, a mapping, an access, a phase.
    side = bytes([3, 1, 0, 0, 9, 1, 3, 0, 1, 2, 0, 7, 0x80, 0x20, 0x80, 0x40, 3, 1, 13, 1, ord("p")])
    controls, near, far = bytes([0x33, 0x1B, 0x22, 0x43]), bytes([1, 2, 3, 4, 5, 6, 7, 8]), bytes([9, 10])
    capture = [message(1, 5), message(8, 5, 0x10000, 0x2000, 3, 0x8022, 0, 0, 0),
               message(8, 5, 0x20000, 0x2000, 1, 0x2, 7, 9, 0x3000), message(14, 5, 0x10000, 0x2000, 2), message(15, 5, 3), message(2, 0x35, 0x10000, 0x8000000010008),
               message(4, 5, 1), message(6, 6, 1, 1), message(13, 6, 0x20000, 0x30000), message(7, 6), message(7, 5)]
    # Frames; a page that leaves and comes back; both reports.
    accelerator = [(0, 2, 0), (0, 4, 0), (1, 3, 9), (7, 0, 0), (4, 3, 0), (7, 1, 0), (4, 3, 16), (6, 0, 1), (2, 0, 0),
                   (2, 1, 0), (3, 64, 8)]
    # One way, one slot: writes to two pages; the first is wanted again while it is written.
    tier = [(5, 1), (8, 0), (5, 2), (8, 0), (0, 1), (12, 0), (8, 0), (1, 1), (16, 2), (8, 0)]
    # A compare and swap in a tagged frame with padding; a part of a page.
    swap = struct.pack("<BBBBIQQQQ", 1, 5, 0, 0, 7, 3, 0x10 << 4 | 3, 1, 2)
    frame = bytes(2) + bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]) + struct.pack(">HHH", 0x8100, 5, 0x0804) + swap
    # A page written, its parts in disorder, read, added to, and parts that come again.
    blade = [(6, 0, 1, 7), (8, 2, 0, 0), (8, 0, 0, 0), (12, 0, 0, 0), (8, 1, 0, 0), (0, 1, 1, 0), (4, 12, 1, 5), (12, 0, 3, 0),
             (14, 20, 1, 2), (5, 13, 1, 8)]
    # Two clients shake hands and are answered; a datagram comes again; the blade is started anew.
    sealed = [(0, 0, 0), (3, 0, 0), (5, 0, 0), (3, 0, 0), (2, 0, 0), (5, 0, 0), (0, 1, 0), (3, 0, 0), (5, 1, 0), (3, 0, 0),
              (7, 0, 2), (3, 0, 0), (8, 0, 0), (0, 0, 0), (3, 0, 0), (5, 0, 0), (0, 0, 0), (3, 0, 0), (5, 0, 0), (3, 0, 0)]
    yield "canary", b"PW??"
    yield "blade_secure", b"".join(bytes(step) for step in sealed)
    yield "blade_codec", swap
    yield "blade_codec", frame
    yield "blade_codec", struct.pack("<BBBBI", 1, 0x80, 2, 0, 7) + bytes(1360)
    yield "blade_server", b"".join(bytes(step) for step in blade)
    yield "blade_client", bytes([0, 3, 5, 0, 2, 9, 18, 1] + [0, 0, 2, 0, 0, 1, 3, 0, 1, 2, 6, 0, 4, 9, 5, 1, 1, 0, 2, 0] * 2)
    for version in [1, 2, 3, 4]:
        yield "pwt", (HERE / f"../crates/trace/tests/data/version-{version}.pwt").read_bytes()
    yield "pwt_streams", streams(controls, near, far, side, 2)
    yield "pwt_streams", streams(b"", b"", b"", b"", 0)
    # One batch of two accesses, three blocks and an instruction count; the third block is not the expected one and lies elsewhere.
    executed = bytes([2, 1, 3, 0, 0, 0, 9])
    yield "pwt_streams", streams(controls[:2], near[:5], far, executed, 1, bytes([0, 0, 3, 5, 1]), 3)
    yield "champsim", b"".join(champsim)
    yield "cloudsuite", b"".join(cloudsuite)
    yield "drmemtrace", drmemtrace()
    yield "lackey", lackey.encode()
    pinatrace = b"# Pin\n0x401000: R 0x7ffd1000  8 0x2a\n0x401004: W 0x7ffd2000\nR 0x10\n0x1: P 0x2\n#eof\n"
    yield "gem5", gem5()
    yield "pinatrace", pinatrace
    mapping = "# v2p\naddress_mapping_group {\n page_size: 0x200000\n address_mapping { virtual_address: 0x123 " \
              "physical_address: 010 }\n information { page_count: 1 note: \"x\" }\n}\n"
    yield "v2p", mapping.encode()
    yield "trace_file", archive("chunk.00000000", drmemtrace())
    yield "trace_file", tar("t/trace/a.trace", thread(501, [(10, 2)]))
    for pack in [gzip.compress, lzma.compress, bz2.compress]:
        yield "trace_file", pack(drmemtrace())
    # lz4: a frame of one stored block; snappy: a stream of one chunk that is not compressed, its checksum left 0.
    stored = b"\x04\x22\x4d\x18\x60\x40\x82" + struct.pack("<I", 1 << 31 | len(lackey)) + lackey.encode() + bytes(4)
    yield "trace_file", stored
    yield "trace_file", b"\xff\x06\0\0sNaPpY\x01" + (len(lackey) + 4).to_bytes(3, "little") + bytes(4) + lackey.encode()
    yield "trace_file", pinatrace
    yield "trace_folder", folder()
    for machine in sorted((HERE / "../machines").glob("*.toml")):
        yield "machine", machine.read_bytes()
    yield "capture_protocol", b"".join(capture)
    # The address of a block and its instructions: one with each kind of prefix; those of the tests, whose bytes stand before a bar.
    yield "code", bytes(8) + bytes.fromhex("4839d8 7410 f348a5 f00fb10f 660fefc9 c5f158c2 62f17448 58c2 c3")
    table = (HERE / "../crates/code/tests/instructions.txt").read_text().splitlines()
    yield "code", bytes(8) + b"".join(bytes.fromhex(line.split("|")[0]) for line in table if not line.startswith("#"))
    # Model instructions: a load, an addition, a comparison, a branch to the load.
    words = [0xFFC0165C, 0xF8400003, 0xF881D003, 0xFFFBD10C]
    yield "code", bytes(8) + b"".join(word.to_bytes(4, "little") for word in words)
    yield "accelerator", bytes([1, 1, 1, 0]) + b"".join(bytes(step) for step in accelerator)
    # With a free frame, a page of the table's is touched; a page is evicted; ecall, wfi, a compressed instruction.
    words = [0x01243023, 0x0004B283, 0x0054B023, 0x01343823, 0x00000073, 0x10500073, 0x30200073, 0x12000073, 0x00010001]
    yield "riscv", bytes([0]) + elf()
    yield "riscv", bytes([3]) + struct.pack(f"<{len(words)}I", *words)
    # A word of a page table, an inode, a directory: its place, how it changes, and to what.
    yield "ctfs", struct.pack("<HBQ", 40, 0, 0x7) + struct.pack("<HBQ", 300, 1, 5)
    yield "ctfs", b""
    yield "tier", bytes([0, 0, 0, 0, 0, 1, 0, 1]) + b"".join(bytes(step) for step in tier)


def main():
    folder = Path(sys.argv[1])
    for number, (target, content) in enumerate(seeds()):
        (folder / target).mkdir(parents=True, exist_ok=True)
        (folder / target / f"seed-{number:02}").write_bytes(content)


if __name__ == "__main__":
    main()
