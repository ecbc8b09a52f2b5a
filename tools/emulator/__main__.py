"""Runs an x86-64 Linux program on an emulated CPU, for instance one with AVX-512 and VNNI.

    python tools/emulator [--cpu sapphire_rapids] PROGRAM [ARGUMENT ...]

Bochs interprets every instruction, some 50 to 100 million per second. The program gets its shared
libraries and the variables GTEST_*, CPUACCEL_*, ASAN_OPTIONS and UBSAN_OPTIONS, but no other files.
The exit status is the program's (128 + n after signal n).
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import fetch
import machine

FORWARDED = ("GTEST_", "CPUACCEL_", "ASAN_OPTIONS", "UBSAN_OPTIONS")
ROOT = Path(__file__).resolve().parents[2]
# No firmware, no APIC, a clock that needs no calibration, and nothing slow that tests do not need.
COMMAND_LINE = (
    "console=ttyS0 {log} panic=-1 nokaslr acpi=off pci=off nosmp nolapic noapic no_timer_check "
    "tsc=reliable tsc_early_khz={khz} lpj=1000000 idle=halt mitigations=off audit=0 "
    "random.trust_cpu=on cryptomgr.notests initcall_blacklist=jent_mod_init,init_kprobe_trace,"
    "load_system_certificate_list,bpf_tcp_ca_kfunc_init"
)
INSTRUCTIONS_PER_SECOND = 100_000_000  # the rate of the guest's clocks

BOOTED, ENDED = b"\x01", b"\x02"  # init.c sends these before and after the program's output

BOCHSRC = """\
config_interface: textconfig
display_library: nogui
log: bochs.txt
panic: action=fatal
error: action={messages}
info: action={messages}
cpu: model={cpu}, count=1, ips={ips}, reset_on_triple_fault=0
memory: guest={megabytes}, host={megabytes}
romimage: file=rom.bin
vgaromimage: file=vga.bin
optramimage1: file=ram.bin, address={address:#x}
clock: sync=none
com1: enabled=1, mode=file, dev=console.txt
port_e9_hack: enabled=1
"""


def build_init(directory: Path) -> bytes:
    """Compiles init.c."""
    source, target = Path(__file__).with_name("init.c"), directory / "init"
    command = ["gcc", "-static", "-Os", "-s", "-Wall", "-Werror", "-o", str(target), str(source)]
    subprocess.run(command, check=True)
    return target.read_bytes()


def shared_libraries(program: Path) -> dict[str, bytes]:
    """The shared libraries and the loader of ``program``, by path; empty if it is static."""
    listing = subprocess.run(["ldd", str(program)], capture_output=True, text=True).stdout
    paths = re.findall(r"(?:=> |^\s+)(/\S+) \(0x", listing, re.MULTILINE)
    return {path: Path(path).read_bytes() for path in paths}


def strings(values: list[str]) -> bytes:
    """``values``, each ended by a NUL."""
    return b"".join(value.encode() + b"\0" for value in values)


def prepare_machine(directory: Path, vmlinux: bytes, options: argparse.Namespace) -> None:
    """Writes the emulator's input files into ``directory``."""
    environment = [
        f"{name}={value}" for name, value in os.environ.items() if name.startswith(FORWARDED)
    ]
    files = {
        "/init": build_init(directory),
        "/program": options.program.read_bytes(),
        "/arguments": strings([str(options.program), *options.arguments]),
        "/environment": strings(environment),
    }
    ramdisk = machine.initramfs(files | shared_libraries(options.program))
    command_line = COMMAND_LINE.format(
        khz=INSTRUCTIONS_PER_SECOND // 1000,
        log="debug earlyprintk=serial" if options.verbose else "quiet",
    )
    machine.write_image(directory / "ram.bin", vmlinux, ramdisk, command_line)
    (directory / "rom.bin").write_bytes(machine.boot_rom(machine.pvh_entry(vmlinux)))
    (directory / "vga.bin").write_bytes(bytes(512))
    (directory / "bochsrc").write_text(
        BOCHSRC.format(
            messages="report" if options.verbose else "ignore",
            cpu=options.cpu,
            ips=INSTRUCTIONS_PER_SECOND,
            megabytes=machine.MEMORY_BYTES >> 20,
            address=machine.IMAGE_ADDRESS,
        )
    )


def run_machine(bochs: Path, directory: Path, timeout: float) -> int | None:
    """Boots and prints the program's output; returns its exit status, or None if it gave none."""
    begin = time.monotonic()
    with subprocess.Popen(
        [bochs, "-q", "-f", "bochsrc"], cwd=directory, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        watchdog = threading.Timer(timeout, process.kill)
        watchdog.start()
        status = booted = None
        emulator_said = []  # before and after the program
        try:
            for line in process.stdout or ():
                if booted is None and BOOTED in line:
                    booted = time.monotonic()
                elif booted is None or status is not None:
                    emulator_said.append(line)
                else:
                    output, mark, code = line.partition(ENDED)
                    sys.stdout.buffer.write(output)
                    sys.stdout.buffer.flush()
                    status = int(code) if mark else None
        finally:
            watchdog.cancel()
            process.kill()
    end = time.monotonic()
    if status is None:
        sys.stdout.buffer.writelines(emulator_said)
        print(f"emulator: no exit status after {end - begin:.0f} s (--timeout {timeout:.0f})")
    elif booted is not None:
        print(f"emulator: boot {booted - begin:.1f} s, program {end - booted:.1f} s")
    return status


def main() -> int:
    """Entry point; arguments are documented by --help."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cpu", default="sapphire_rapids", help="CPU model of Bochs (default: sapphire_rapids)"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=1800,
        help="seconds until the emulator is ended (default: 1800)",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="print the console of the emulated kernel"
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=os.environ.get("CPUACCEL_EMULATOR", ROOT / "build" / "emulator"),
        help="folder of the emulator, built there at the first use (default: $CPUACCEL_EMULATOR)",
    )
    parser.add_argument("program", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.program.is_file():
        parser.error(f"no such program: {options.program}")
    # On SIGTERM the emulator ends and its files are deleted.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    kept = options.directory.resolve()
    try:
        fetch.prepare(kept)
    except RuntimeError as error:
        print(f"emulator: {error}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        prepare_machine(directory, (kept / "vmlinux").read_bytes(), options)
        status = run_machine(kept / "bochs", directory, options.timeout)
        if status is None or options.verbose:
            for log in directory.glob("*.txt"):
                print(f"--- {log.name}\n{log.read_text(errors='replace')[-8000:]}")
    return 1 if status is None else status


if __name__ == "__main__":
    sys.exit(main())
