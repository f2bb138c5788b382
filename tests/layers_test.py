"""Checks every #include of src/ against docs/layers.txt: who may include whom, and which third-party headers.

    python3 tests/layers_test.py [-v]

The table is the only list of what is allowed; this file knows how to read it and which headers belong to the system. A
header that is neither ours, nor the system's, nor named in the table is refused, so a new dependency is a reviewed line.
"""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
ANYWHERE = ("fmt", "spdlog", "nlohmann")  # open to every module, as std is
IN_TESTS = ("gtest", "gmock", "rapidcheck", "rapidcheck.h")
IN_BENCHES = ("benchmark",)
TORCH = ("torch", "ATen", "c10")  # what "torch" in the table stands for
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# The C++ standard library has no suffix; of C and Linux, these folders and files.
SYSTEM_FOLDERS = ("sys", "linux", "arpa", "net", "netinet", "asm")
SYSTEM_FILES = set("""cpuid dirent dlfcn elf endian errno execinfo fcntl fenv getopt grp ifaddrs immintrin limits link malloc
    math netdb poll pthread pwd sched semaphore signal spawn stdint stdio stdlib string syscall termios time ucontext unistd
    x86intrin""".split())


class Table:
    """docs/layers.txt, read. `ours`: module -> modules; `third`: module -> prefixes; `extra`: (module, file or None) -> more."""

    def __init__(self, text):
        self.ours, self.third, self.extra = {}, {}, {}
        for number, raw in enumerate(text.splitlines(), 1):
            line = raw.split("#")[0].strip()
            if not line:
                continue
            if ":" in line:
                module, rest = (part.strip() for part in line.split(":", 1))
                ours, _, third = rest.partition(";")
                self.ours[module], self.third[module] = set(ours.split()), set(third.split())
            elif match := re.fullmatch(r"(?:(\S+) +\((\w+)\)|(\w+)) +> +(\S+)", line):
                file, module = match[1], match[2] or match[3]
                self.extra.setdefault((module, file), set()).add(match[4])
            else:
                raise ValueError(f"docs/layers.txt:{number}: cannot read {raw!r}")
        for module in [m for m, _ in self.extra] + [m for ours in self.ours.values() for m in ours]:
            if module not in self.ours and module not in ("*", "options"):
                raise ValueError(f"docs/layers.txt names module {module!r}, which has no row")

    def cycle(self):
        """Modules that include each other in a ring, or []. "*" and "options" make no ring: cli is on top, options are std only."""
        def walk(module, path):
            if module in path:
                return path[path.index(module):]
            return next((ring for m in sorted(self.ours[module] - {"*", "options"}) if (ring := walk(m, path + [module]))), [])
        return next((ring for module in self.ours if (ring := walk(module, []))), [])

    def refusal(self, module, file, quoted, header):
        """Why `file` of `module` may not include `header`, or None. `quoted`: written with quotation marks."""
        if module not in self.ours:
            return f"module {module} has no row in docs/layers.txt"
        more = self.extra.get((module, file), set()) | self.extra.get((module, None), set())
        first = header.split("/")[0]
        if quoted:
            if "/" not in header or first not in self.ours:
                return "headers of ours are written from src/ on: \"module/file.h\""
            ours = self.ours[module]
            allowed = (first in {module, "core"} | ours | more or header in more or ("*" in ours and first != "cli")
                       or ("options" in ours and header.endswith("/options.h")))
            return None if allowed else f"{module} may not include {first}"
        prefixes = set(ANYWHERE) | self.third[module] | more
        prefixes |= set(TORCH) if "torch" in prefixes else set()
        prefixes |= set(IN_TESTS) if file.endswith("_test.cpp") or "test" in pathlib.Path(file).stem.split("_") else set()
        prefixes |= set(IN_BENCHES) if file.endswith("_bench.cpp") else set()
        if first in prefixes or header in prefixes or is_system(header):
            return None
        return f"<{header}> is not among the third-party headers of {module}"


def is_system(header):
    folder, _, _ = header.rpartition("/")
    if folder:
        return folder.split("/")[0] in SYSTEM_FOLDERS
    return "." not in header or (header.endswith(".h") and header[:-2] in SYSTEM_FILES)


def refusals(table, sources):
    """sources: (path below src/, text) pairs. Yields "path:line: why"."""
    for path, text in sources:
        module = path.split("/")[0]
        for match in INCLUDE.finditer(text):
            why = table.refusal(module, path.split("/")[-1], match[1] == '"', match[2])
            if why:
                yield f"src/{path}:{text[:match.start(2)].count(chr(10)) + 1}: {why}"


def table_of_project():
    return Table((ROOT / "docs/layers.txt").read_text())


def sources_of_project():
    src = ROOT / "src"
    for path in sorted(src.rglob("*")):
        if path.suffix in (".h", ".cpp"):
            yield path.relative_to(src).as_posix(), path.read_text()


class TheProject(unittest.TestCase):
    def test_every_include_follows_the_table(self):
        sources = list(sources_of_project())
        self.assertGreater(sum(len(INCLUDE.findall(text)) for _, text in sources), 100, "found too few includes to believe")
        self.assertEqual([], list(refusals(table_of_project(), sources)))

    def test_the_table_has_no_ring(self):
        self.assertEqual([], table_of_project().cycle())


class TheCheck(unittest.TestCase):
    """On made-up sources: what must be refused is refused, what is allowed passes."""

    def refused(self, path, include):
        return list(refusals(table_of_project(), [(path, f"// first line\n#include {include}\n")]))

    def test_refuses_a_module_above(self):
        self.assertEqual(['src/core/x.h:2: core may not include mesh'], self.refused("core/x.h", '"mesh/mesh.h"'))
        self.assertTrue(self.refused("comm/x.cpp", '"backend/group.h"'))
        self.assertTrue(self.refused("train/x.cpp", '"config/run_config.h"'))

    def test_refuses_libtorch_below_the_line(self):
        for header in ("<torch/torch.h>", "<ATen/ATen.h>", "<c10/util/Exception.h>"):
            self.assertTrue(self.refused("comm/x.cpp", header), header)
            self.assertFalse(self.refused("backend/x.cpp", header), header)

    def test_an_exception_holds_for_its_file_alone(self):
        self.assertFalse(self.refused("topology/discover.cpp", "<hwloc.h>"))
        self.assertTrue(self.refused("topology/binding.cpp", "<hwloc.h>"))
        self.assertFalse(self.refused("spec/memory.cpp", '"schedule/pipeline_action.h"'))
        self.assertTrue(self.refused("spec/gpt.cpp", '"schedule/pipeline_action.h"'))

    def test_an_exception_holds_for_its_header_alone(self):
        self.assertFalse(self.refused("launch/x.cpp", '"comm/store.h"'))
        self.assertTrue(Table("a:\nb:\nb > a/x.h").refusal("b", "f.cpp", True, "a/y.h"))

    def test_config_sees_options_and_nothing_else_of_others(self):
        self.assertFalse(self.refused("config/x.h", '"train/options.h"'))
        self.assertTrue(self.refused("config/x.h", '"train/trainer.h"'))

    def test_nothing_includes_cli_and_cli_includes_all(self):
        self.assertFalse(self.refused("cli/x.cpp", '"train/trainer.h"'))
        for module in table_of_project().ours:
            if module != "cli":
                self.assertTrue(self.refused(f"{module}/x.cpp", '"cli/command.h"'), module)

    def test_refuses_headers_that_nobody_named(self):
        self.assertTrue(self.refused("core/x.cpp", "<boost/any.hpp>"))
        self.assertTrue(self.refused("core/x.cpp", "<zstd.h>"))
        self.assertTrue(self.refused("core/x.cpp", '"fd.h"'))
        self.assertTrue(self.refused("novel/x.cpp", "<vector>"))
        self.assertFalse(self.refused("core/x.cpp", "<sys/mman.h>"))

    def test_test_libraries_are_for_tests(self):
        self.assertFalse(self.refused("core/fd_test.cpp", "<gtest/gtest.h>"))
        self.assertTrue(self.refused("core/fd.cpp", "<gtest/gtest.h>"))

    def test_finds_a_ring(self):
        self.assertEqual({"a", "b"}, set(Table("a: b\nb: a").cycle()))
        self.assertEqual([], Table("a: b\nb:").cycle())

    def test_refuses_a_table_it_cannot_read(self):
        for text in ("what is this", "a: nobody"):
            with self.assertRaises(ValueError):
                Table(text)


if __name__ == "__main__":
    unittest.main()
