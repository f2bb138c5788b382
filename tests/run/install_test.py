"""An installed tutti: its programs run, and programs that use it build outside the tree (examples/api).

    TUTTI_BUILD=build python3 tests/run/install_test.py [-v]
"""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["TUTTI_BUILD"]).resolve()
CMAKE = os.environ.get("TUTTI_CMAKE", "cmake")
# The environment of a user who knows nothing of the build.
CLEAN = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR", "CCACHE_DIR")}


def run(*command, status=0, **more):
    done = subprocess.run([str(part) for part in command], env={**CLEAN, **more.pop("env", {})}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=600, **more)
    if done.returncode != status:
        raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.top = pathlib.Path(folder.name)
        cls.prefix, cls.built = cls.top / "prefix", cls.top / "built"
        run(CMAKE, "--install", BUILD, "--prefix", cls.prefix)
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if subprocess.run(["which", "ccache"], capture_output=True).returncode == 0 else []
        run(CMAKE, "-G", "Ninja", "-S", ROOT / "examples/api", "-B", cls.built, f"-DCMAKE_PREFIX_PATH={cls.prefix}", *launcher)
        run(CMAKE, "--build", cls.built, "-j", "2")

    def losses(self, ranks, program, *arguments):
        text = run(self.prefix / "bin/tutti", "launch", "-n", ranks, "--", self.built / program, *arguments,
                   env={"OMP_NUM_THREADS": "1"}, cwd=self.top)
        return [float(loss) for loss in re.findall(r"loss ([0-9.]+)", text)]

    def test_the_installed_program_starts_ranks(self):
        self.assertIn("tutti", run(self.prefix / "bin/tutti", "--version"))
        self.assertEqual("", run(self.prefix / "bin/tutti", "launch", "-n", "2", "--", "true"))
        for file in ("libexec/tutti-torch", "lib/libtutti.so"):
            self.assertIn("libtorch_cpu.so => /", run("ldd", self.prefix / file))

    def test_the_library_shows_its_interface_alone(self):
        names = subprocess.run(["nm", "-DC", "--defined-only", self.prefix / "lib/libtutti.so"], capture_output=True, text=True,
                               check=True).stdout
        own = {line.split(" ", 2)[2].split("(")[0] for line in names.splitlines() if "tutti::" in line}
        api = re.compile(r"(?:(?:vtable|typeinfo|typeinfo name) for )?tutti::(?:init|(?:World|Group|Replica)::~?\w+)(?:\[abi:cxx11\])?$")
        self.assertLessEqual({"tutti::init", "tutti::World::group", "tutti::Group::all_reduce", "tutti::Replica::wait"}, own)
        self.assertEqual([], sorted(name for name in own if not api.match(name)))

    def test_a_network_of_ones_own_learns_the_same_on_any_number_of_ranks(self):
        alone, two, four = (self.losses(ranks, "data_parallel", 101) for ranks in (1, 2, 4))
        self.assertEqual(3, len(alone))
        self.assertLess(alone[-1], alone[0] - 0.1)
        for other in (two, four):
            for a, b in zip(alone[:2], other[:2]):  # rounding may grow later
                self.assertAlmostEqual(a, b, delta=2e-4)

    def test_a_sharded_model_learns_the_same_at_every_zero(self):
        runs = [self.losses(2, "sharded", zero, 41) for zero in (0, 1, 2, 3)] + [self.losses(1, "sharded", 3, 41)]
        self.assertLess(runs[0][-1], runs[0][0] - 0.05)
        for other in runs[1:4]:
            self.assertEqual(runs[0], other)
        for a, b in zip(runs[0], runs[4]):
            self.assertAlmostEqual(a, b, delta=2e-4)

    def test_a_killed_rank_ends_the_others_with_a_name(self):
        program = f'[ $RANK = 1 ] && (sleep 2; kill -9 $$) & exec {self.built}/data_parallel 1000000'
        done = subprocess.run([self.prefix / "bin/tutti", "launch", "-n", "2", "--", "sh", "-c", program],
                              env=CLEAN, capture_output=True, text=True, timeout=120)
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn("rank 1", done.stderr)
        self.assertIn("SIGKILL", done.stderr)


if __name__ == "__main__":
    unittest.main()
