"""The memory image of a PC that runs one program under Linux, and its boot ROM.

There is no BIOS and no disk. Everything is already in memory, and the ROM enters the kernel as a
PVH loader does (32-bit protected mode, EBX pointing to a start_info structure).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

MEMORY_BYTES = 1 << 30
IMAGE_ADDRESS = 1 << 20  # start_info, then the kernel at its linked address, then the initramfs
PAGE = 4096

PT_LOAD, PT_NOTE = 1, 4
XEN_ELFNOTE_PHYS32_ENTRY = 18


def _aligned(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _program_headers(elf: bytes) -> list[tuple[int, ...]]:
    """(type, flags, offset, vaddr, paddr, filesz, memsz, align) of each segment of an ELF64."""
    (offset,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    return [struct.unpack_from("<IIQQQQQQ", elf, offset + i * size) for i in range(count)]


def pvh_entry(vmlinux: bytes) -> int:
    """The physical address at which a PVH loader enters ``vmlinux``."""
    for kind, _, offset, _, _, size, _, _ in _program_headers(vmlinux):
        at = offset
        while kind == PT_NOTE and at < offset + size:
            name_size, value_size, note = struct.unpack_from("<III", vmlinux, at)
            value = at + 12 + _aligned(name_size, 4)
            if vmlinux[at + 12 : at + 16] == b"Xen\0" and note == XEN_ELFNOTE_PHYS32_ENTRY:
                return int.from_bytes(vmlinux[value : value + value_size], "little")
            at = value + _aligned(value_size, 4)
    raise ValueError("the kernel has no PVH entry (CONFIG_PVH)")


def initramfs(files: Mapping[str, bytes]) -> bytes:
    """A cpio archive (newc) of executable files; the names are absolute paths."""
    parents = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    entries = [(name, 0o040755, b"") for name in sorted(parents - {"/"})]
    entries += [(name, 0o100755, data) for name, data in files.items()]
    archive = bytearray()
    for inode, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], start=1):
        fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        archive += b"070701" + b"".join(b"%08x" % field for field in fields)
        archive += name.encode() + b"\0"
        archive += bytes(-len(archive) % 4) + data
        archive += bytes(-len(archive) % 4)
    return bytes(archive)


def write_image(path: Path, vmlinux: bytes, ramdisk: bytes, command_line: str) -> None:
    """Writes the memory contents from IMAGE_ADDRESS on, as they are when the kernel is entered."""
    segments = [header for header in _program_headers(vmlinux) if header[0] == PT_LOAD]
    ramdisk_address = _aligned(max(paddr + size for *_, paddr, _, size, _ in segments), 1 << 21)
    # Linux unpacks the initramfs into a file system that may use half of the memory, while the copy
    # lies in the other half. It silently drops what does not fit.
    if ramdisk_address + len(ramdisk) > MEMORY_BYTES // 3:
        raise ValueError(f"a program of {len(ramdisk)} bytes does not fit into the machine")
    memory_map = [(0, 0x9F000, 1), (IMAGE_ADDRESS, MEMORY_BYTES - IMAGE_ADDRESS, 1)]
    module_at, map_at, text_at = (IMAGE_ADDRESS + offset for offset in (64, 128, 256))
    start = bytearray(PAGE)
    struct.pack_into("<IIIIQQQQII", start, 0, 0x336EC578, 1, 0, 1, module_at, text_at, 0, map_at,
                     len(memory_map), 0)  # fmt: skip
    struct.pack_into("<QQQQ", start, 64, ramdisk_address, len(ramdisk), 0, 0)
    for index, entry in enumerate(memory_map):
        struct.pack_into("<QQII", start, 128 + index * 24, *entry, 0)
    start[256 : 256 + len(command_line)] = command_line.encode()
    with path.open("wb") as image:
        image.write(start)
        for _, _, offset, _, paddr, size, _, _ in segments:
            image.seek(paddr - IMAGE_ADDRESS)
            image.write(vmlinux[offset : offset + size])
        image.seek(ramdisk_address - IMAGE_ADDRESS)
        image.write(ramdisk)


def boot_rom(entry: int) -> bytes:
    """64 KiB that end at the reset vector: sets up flat 32-bit segments and jumps to ``entry``."""
    gdt, gdt_pointer, protected = 0x100, 0x120, 0x40
    real_mode = bytes.fromhex("fa 2e660f0116") + struct.pack("<H", gdt_pointer)  # cli; lgdt
    real_mode += bytes.fromhex("0f20c0 0c01 0f22c0")  # CR0.PE = 1
    real_mode += bytes.fromhex("66ea") + struct.pack("<IH", 0xF0000 + protected, 8)
    flat = bytes.fromhex("b810000000 8ed8 8ec0 8ed0")  # DS = ES = SS = 0x10
    flat += struct.pack("<BIBI", 0xBB, IMAGE_ADDRESS, 0xB8, entry) + bytes.fromhex("ffe0")
    rom = bytearray(1 << 16)
    rom[: len(real_mode)] = real_mode
    rom[protected : protected + len(flat)] = flat
    struct.pack_into("<QQQ", rom, gdt, 0, 0x00CF9A000000FFFF, 0x00CF92000000FFFF)
    struct.pack_into("<HI", rom, gdt_pointer, 23, 0xF0000 + gdt)
    rom[0xFFF0:0xFFF5] = bytes.fromhex("ea000000f0")  # jmp f000:0000
    return bytes(rom)
