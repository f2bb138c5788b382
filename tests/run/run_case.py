"""What the tests of whole runs share: a folder with the smallest model that has every part of a real one, and words for what
they do with it. No oracle here knows how the program works.
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_S = 60  # of one command; the slowest takes a few seconds on two busy cores
TUTTI = pathlib.Path(os.environ.get("TUTTI_PROGRAM", ROOT / "build/tutti")).resolve()  # under test

CONFIG = """\
[model]
kind = "gpt2"
layers = 2
hidden = 32
heads = 4
vocab = 256
context = 32
[data]
train = "text.tokens"
sequence = 32
[batch]
micro = 1
global = 12
[optim]
lr = 1e-3
min_lr = 1e-4
warmup_steps = 2
[run]
steps = 10
dir = "run"
eval_every = 0
checkpoint_every = 1000000
threads = 1
"""

# Where a launcher's variables stand in the caller's environment, `tutti train` would join that job instead of starting one.
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_", "OMPI_", "PMI",
             "TUTTI_")


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}


def ranks_of(launcher):
    """The rank processes below the process `launcher`, as {rank: pid}. Reads /proc, so that no output has to be trusted."""
    ranks = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent != launcher or b"tutti-torch" not in (folder / "cmdline").read_bytes():
                continue
            variables = dict(v.split(b"=", 1) for v in (folder / "environ").read_bytes().split(b"\0") if b"=" in v)
            ranks[int(variables[b"RANK"])] = int(folder.name)
        except (OSError, KeyError):
            pass  # ended while we looked
    return ranks


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class RunTest(unittest.TestCase):
    """A temporary folder with a config and a token file, and words for what the tests do with them."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-run-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "config.toml").write_text(CONFIG)
        self.done("data", "prepare", ROOT / "LICENSE", "--tokenizer", "bytes", "-o", "text.tokens")

    def command(self, *arguments, env=None):
        """Runs `tutti ARGUMENTS` to its end. A command that outlives LIMIT_S is an error: a hang is the worst bug."""
        return subprocess.run([TUTTI, *map(str, arguments)], cwd=self.folder, env=env or clean_environment(), text=True,
                              errors="surrogateescape",  # a model that has learnt little writes any bytes
                              capture_output=True, timeout=LIMIT_S)

    def done(self, *arguments):
        """The same, of a command that has to succeed. Returns what it wrote to stdout."""
        process = self.command(*arguments)
        self.assertEqual(process.returncode, 0, f"{arguments}\n{process.stderr}")
        return process.stdout

    def train(self, run, ranks, *more):
        """Trains in the folder `run` and returns its summary."""
        self.done("train", "config.toml", "-n", ranks, f"run.dir={run}", *more)
        return self.summary(run)

    def start(self, *arguments, env=None):
        """Starts `tutti ARGUMENTS`; stderr goes to a file, because a full pipe would stop the program and hide what it does."""
        log = self.folder / f"stderr-{time.monotonic_ns()}.txt"
        with log.open("w") as stderr:
            process = subprocess.Popen([TUTTI, *map(str, arguments)], cwd=self.folder, env=env or clean_environment(),
                                       stdout=subprocess.DEVNULL, stderr=stderr)
        self.addCleanup(self.stop, process)
        return process, log

    @staticmethod
    def stop(process):
        if process.poll() is None:
            for pid in ranks_of(process.pid).values():
                os.kill(pid, signal.SIGKILL)
            process.kill()
        process.wait(LIMIT_S)

    def until(self, what, condition):
        """Waits for condition() to be true and returns what it gave."""
        deadline = time.monotonic() + LIMIT_S
        while not (value := condition()):
            self.assertLess(time.monotonic(), deadline, f"waited {LIMIT_S} s for {what}")
            time.sleep(0.005)
        return value

    def summary(self, run):
        return json.loads((self.folder / run / "summary.json").read_text())

    def losses(self, run):
        """The losses of a run by step. json reads a double back to the same bits, so equal floats are equal bits."""
        lines = [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([line["step"] for line in lines], list(range(1, len(lines) + 1)), "every step once and in order")
        return [line["loss"] for line in lines]

    def steps_done(self, run):
        path = self.folder / run / "metrics.jsonl"
        return path.read_text().count("\n") if path.exists() else 0

    def checkpoints(self, run):
        """The complete checkpoints of a run, oldest first: those with the file that is written last."""
        complete = [p.parent for p in (self.folder / run / "checkpoints").glob("step-*/done")]
        return sorted(complete, key=lambda path: int(path.name.removeprefix("step-")))

    def assert_close(self, run, reference, relative):
        self.assertEqual(len(run), len(reference))
        for step, (loss, expected) in enumerate(zip(run, reference), 1):
            self.assertLessEqual(abs(loss - expected), relative * abs(expected), f"step {step}: {loss} for {expected}")

    def refused(self, status, words, *arguments):
        """`tutti ARGUMENTS` has to end with `status` and say each of `words`."""
        process = self.command(*arguments)
        self.assertEqual(process.returncode, status, process.stderr)
        for word in words:
            self.assertIn(word, process.stderr)
        return process.stderr

    def interrupt(self, run, ranks, at_step, *more):
        """Trains, presses Ctrl-C once after step `at_step` and returns the step that was saved."""
        process, log = self.start("train", "config.toml", "-n", ranks, f"run.dir={run}", *more)
        self.until(f"step {at_step}", lambda: process.poll() is not None or self.steps_done(run) >= at_step)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT_S), 130, log.read_text())
        self.assertIn("--resume latest", log.read_text())
        return int(self.checkpoints(run)[-1].name.removeprefix("step-"))
