# SPDX-License-Identifier: Apache-2.0
"""cairn beside llama.cpp on this machine: the same weights, in turns, medians. README.md tells more."""
import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys
import time

import build_peer
import gguf_model
import machine
import same_model
import stages
from asked import selected
from report import Report
from safetensors import Checkpoint
from servers import FAILURES
from speed import has_weights
from store import Store, file_digest, made_of

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
# What a model file and a sample depend on besides programs and options: this code and its settings.
MODEL_CODE = ("gguf.py", "gguf_model.py", "blocks.py", "safetensors.py")
SAMPLE_CODE = ("machine.py", "same_model.py", "servers.py", "speed.py", "stages.py", "workloads.py")
FORMATS = {"BF16": "bf16", "Q8_0": "int8", "Q4_0": "int4"}  # the peer's, and cairn's in its place


@dataclasses.dataclass
class Setup:
    """What every stage needs. Paths are absolute, lists of flags are words of a command line."""
    cairn: pathlib.Path
    checkpoint: pathlib.Path
    vocabulary: int
    longest: int  # tokens that the model is made for
    gguf: dict  # by format
    peer: build_peer.Build
    threads: int
    rounds: int
    workload_rounds: int
    settle: float  # seconds
    lengths: tuple
    formats: dict  # the peer's format to cairn's, None where this cairn lacks it
    server_weights: str  # the same of the servers' format
    lock: machine.Lock
    store: Store
    folder: pathlib.Path
    cairn_flags: list = dataclasses.field(default_factory=list)
    peer_flags: list = dataclasses.field(default_factory=list)

    def progress(self, text):
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def arguments():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--cairn", type=pathlib.Path, default=REPOSITORY / "build/release/cairn",
                        help="the program to compare")
    parser.add_argument("--folder", type=pathlib.Path, default=REPOSITORY / "build/compare_llama_cpp",
                        help="where the peer, the models and the samples lie")
    parser.add_argument("--shape", default="qwen3.5-0.8b", help="whose random weights are compared")
    parser.add_argument("--only", nargs="+", choices=stages.STAGES, default=list(stages.STAGES), help="these stages")
    parser.add_argument("--formats", nargs="+", choices=list(FORMATS), default=list(FORMATS),
                        help="these weight formats")
    parser.add_argument("--server-format", choices=list(FORMATS), default="Q8_0",
                        help="of the servers in W1 to W6 and the streams")
    parser.add_argument("--rounds", type=int, default=5, help="samples to take the median of")
    parser.add_argument("--workload-rounds", type=int, default=5, help="the same for W1 to W6, which take minutes")
    parser.add_argument("--settle", type=float, default=15, metavar="SECONDS",
                        help="how long a server of W1 to W6 has been up before its first request")
    parser.add_argument("--threads", type=int, default=cores, help="of both programs")
    parser.add_argument("--quick", action="store_true", help="one round, prompts of 512 tokens only")
    parser.add_argument("--check", action="store_true",
                        help="exit with 1 when a row is below what is asked of it, or was not measured")
    parser.add_argument("--fresh", action="store_true", help="measure again what is there already")
    parser.add_argument("--peer-version", default=build_peer.VERSION, help="of llama-cpp-python")
    parser.add_argument("--jobs", type=int, default=cores, help="processes that build the peer")
    parser.add_argument("--lock", type=pathlib.Path, help="file to lock around each measurement")
    return parser.parse_args()


def checkpoint_of(args, folder):
    """The shape's checkpoint directory, made by cairn where it is missing."""
    directory = folder / "models" / args.shape
    if not (directory / "config.json").exists():
        subprocess.run([args.cairn, "model", "make", "--shape", args.shape, directory], check=True)
    return directory


def digest_of(code):
    return file_digest(*(HERE / name for name in code))


def gguf_of(folder, directory, checkpoint, name, kind):
    """A checkpoint's GGUF file of one format, written where that of this checkpoint is missing."""
    inputs = {"code": digest_of(MODEL_CODE), "numpy": gguf_model.np.__version__,
              "checkpoint": checkpoint_stamp(directory)}
    return made_of(folder / "models" / f"{name}-{kind}.gguf", inputs,
                   lambda path: gguf_model.write_model(checkpoint, kind, path, name))


def checkpoint_stamp(directory):
    """Tells a checkpoint from another one in its place; reads no weights."""
    files = sorted(p for p in directory.iterdir() if p.suffix == ".safetensors")
    return [file_digest(directory / "config.json"),
            *([p.name, p.stat().st_size, p.stat().st_mtime_ns] for p in files)]


def weights_if_there(cairn, weights):
    """The name of a weight format if this cairn runs it on a CPU, else None."""
    if has_weights(cairn, weights):
        return weights
    print(f"{cairn.name} has no {weights} weights on the CPU: the peer alone is measured", file=sys.stderr)
    return None


def make_setup(args):
    folder = args.folder.resolve()
    (folder / "models").mkdir(parents=True, exist_ok=True)
    if not args.cairn.exists():
        raise RuntimeError(f"{args.cairn}: not there; build it (scripts/quickstart.sh) or name it with --cairn")
    source = build_peer.fetch(folder, args.peer_version)
    peer = build_peer.build(folder, source, args.peer_version, "native", args.jobs)
    directory = checkpoint_of(args, folder)
    checkpoint = Checkpoint(directory)
    kinds = {*args.formats, args.server_format}
    gguf = {kind: gguf_of(folder, directory, checkpoint, args.shape, kind) for kind in kinds}
    lengths = (512,) if args.quick else (512, 2048)
    rounds, workload_rounds = (1, 1) if args.quick else (args.rounds, args.workload_rounds)
    inputs = {"cairn": file_digest(args.cairn), "peer": peer.version, "builds": build_peer.VARIANTS,
              "shape": args.shape, "threads": args.threads, "lengths": list(lengths),
              "server_format": args.server_format, "settle": args.settle,
              "code": digest_of((*MODEL_CODE, *SAMPLE_CODE)), "checkpoint": checkpoint_stamp(directory)}
    if args.fresh:
        inputs["at"] = time.time()
    there = {kind: weights_if_there(args.cairn, FORMATS[kind]) for kind in kinds}
    shape = gguf_model.Shape(checkpoint.config)
    return Setup(args.cairn.resolve(), directory, shape.vocab, shape.text["max_position_embeddings"], gguf, peer,
                 args.threads, rounds, workload_rounds, args.settle, lengths, {k: there[k] for k in args.formats},
                 there[args.server_format], machine.Lock(args.lock), Store(folder / "samples", inputs),
                 folder)


def run_same(setup, report, args):
    """The tiny model, with several value heads a key head; the demo model, trained and so with clear
    first choices; and the shape itself."""
    models = {"tiny": REPOSITORY / "tests/fixtures/tiny", "demo": REPOSITORY / "model/demo",
              args.shape: setup.checkpoint}
    for name, directory in models.items():
        checkpoint = Checkpoint(directory)
        gguf = gguf_of(setup.folder, directory, checkpoint, name, "BF16")
        vocabulary = gguf_model.Shape(checkpoint.config).vocab
        setup.progress(f"the same model? {name}")
        with setup.lock.held():
            found = setup.store.sample(f"same-{name}", lambda: same_model.compare(
                setup, directory, gguf, vocabulary, setup.folder / "server.log"))
        report.fact(f"the same model, {name} in BF16",
                    f"{found['first_choices']:.0%} of {found['tokens']} greedy tokens are cairn's first "
                    f"choice; log-probabilities differ by {found['log_prob_error']:.3g} at most")


def run(setup, args, priority):
    report = Report([("machine", f"{machine.cpu_name()}, {setup.threads} threads, {priority}"),
                     ("peer", f"{setup.peer.version}, built with {setup.peer.flags}"),
                     ("weights", f"{args.shape}, random"),
                     ("figures", f"medians of {setup.rounds} rounds, in W1 to W6 of {setup.workload_rounds}; "
                                 "(least to most)")])
    for stage in args.only:
        if stage == "same":
            run_same(setup, report, args)
        elif stage == "avx2":
            source = build_peer.fetch(setup.folder, args.peer_version)
            avx2 = build_peer.build(setup.folder, source, args.peer_version, "avx2", args.jobs)
            stages.speed(dataclasses.replace(setup, peer=avx2, cairn_flags=["--isa", "avx2"]), report, "avx2")
        elif stage == "speed":
            stages.speed(setup, report, "speed")
        elif stage == "long":
            stages.long(setup, report)
        elif stage in ("streams", "busy"):
            getattr(stages, stage)(setup, report, args.server_format, setup.server_weights)
        else:
            stages.workload(setup, report, stage, args.server_format, setup.server_weights)
        (setup.folder / "report.md").write_text(report.markdown())
        (setup.folder / "report.json").write_text(report.json())
    print(report.markdown())
    print(f"also in {setup.folder}: report.md, report.json")
    expected = selected(args.only, setup.lengths, args.formats, args.server_format)
    return {"below what is asked": report.missed(), "not measured": report.not_measured(expected)}


def main():
    args = arguments()
    setup = make_setup(args)
    with machine.priority() as priority:
        wrong = run(setup, args, priority)
    said = [f"{how}: {'; '.join(rows)}" for how, rows in wrong.items() if rows]
    if args.check and said:
        sys.exit("\n".join(said))


if __name__ == "__main__":
    try:
        main()
    except (*FAILURES, subprocess.SubprocessError) as error:
        sys.exit(f"compare_llama_cpp: {error}")
    except KeyboardInterrupt:
        sys.exit("interrupted; a later run goes on from the samples taken so far")
