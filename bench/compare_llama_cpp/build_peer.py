# SPDX-License-Identifier: Apache-2.0
"""Builds the peer from the sources that the public llama-cpp-python package carries."""
import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys

PACKAGE = "llama-cpp-python"
VERSION = "0.3.36"  # known to build, and to run the architecture

# Parts of its build that need what is not in the package, or that nothing here uses.
_COMMON = {
    "CMAKE_BUILD_TYPE": "Release", "LLAMA_OPENSSL": "OFF", "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF", "LLAMA_BUILD_APP": "OFF", "LLAMA_BUILD_UI": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",
}
VARIANTS = {
    "native": {"GGML_NATIVE": "ON"},
    "avx2": {"GGML_NATIVE": "OFF", "GGML_AVX2": "ON", "GGML_FMA": "ON", "GGML_F16C": "ON",
             "GGML_BMI2": "ON", "GGML_AVX512": "OFF"},
}
_TARGETS = {"native": ["llama-bench", "llama-server"], "avx2": ["llama-bench"]}


@dataclasses.dataclass
class Build:
    variant: str
    bench: pathlib.Path
    server: pathlib.Path
    version: str  # of the package, and the commit of the peer in it
    flags: str


def _run(command, log, what):
    print(f"{what} (log: {log.name})", flush=True)
    with open(log, "ab") as out:
        if subprocess.run([*map(str, command)], stdout=out, stderr=out).returncode:
            raise RuntimeError(f"{what} failed; see {log}")


def fetch(root, version):
    """The unpacked sources of a version, downloaded once."""
    source = root / f"source-{version}"
    if source.exists():
        return source
    downloads = root / "download"
    _run([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--dest",
          downloads, f"{PACKAGE}=={version}"], root / "fetch.log", f"fetching {PACKAGE} {version}")
    archive = next(downloads.glob(f"*{version}.tar.gz"))
    unpacked = root / "unpacking"
    shutil.rmtree(unpacked, ignore_errors=True)
    shutil.unpack_archive(archive, unpacked)
    next(unpacked.iterdir()).rename(source)
    return source


def _commit(source):
    """The peer's commit, as the package's change log names it for its newest version."""
    found = re.search(r"llama\.cpp@([0-9a-f]+)", (source / "CHANGELOG.md").read_text())
    return found.group(1) if found else "unknown"


def build(root, source, version, variant, jobs):
    """Configures and builds a variant where that is not done yet."""
    folder = root / f"{variant}-{version}"
    commit = _commit(source)
    options = {**_COMMON, **VARIANTS[variant], "LLAMA_BUILD_COMMIT": commit}
    log = root / f"{variant}-{version}.log"
    stamp = folder / "built"
    wanted = repr(sorted(options.items()))
    if not stamp.exists() or stamp.read_text() != wanted:
        defines = [f"-D{key}={value}" for key, value in options.items()]
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        _run(["cmake", "-S", source / "vendor" / "llama.cpp", "-B", folder, *generator, *defines], log,
             f"configuring the peer, {variant}")
        _run(["cmake", "--build", folder, "--parallel", jobs, "--target",
              *_TARGETS[variant]], log,
             f"building the peer, {variant}: up to half an hour on two cores")
        stamp.write_text(wanted)
    flags = " ".join(f"-D{key}={value}" for key, value in VARIANTS[variant].items())
    programs = folder / "bin"
    return Build(variant, programs / "llama-bench", programs / "llama-server",
                 f"{PACKAGE} {version} (llama.cpp {commit})", flags)
