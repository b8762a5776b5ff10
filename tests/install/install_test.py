#!/usr/bin/env python3
"""Installs into an empty directory, uses the installed files as a user does, and removes them again.

usage: install_test.py CASE BUILD_DIRECTORY SOURCE_ROOT PREFIX LIBDIR COMPILER -- MPIRUN...

Exit status 77: skipped.
"""
import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

CASE, BUILD, ROOT, PREFIX, LIBDIR, COMPILER = sys.argv[1:7]
MPIRUN = sys.argv[8:]
WRAPPER = "mpicxx.mpich" if "mpich" in MPIRUN[0] else "mpicxx.openmpi"
if shutil.which(WRAPPER) is None:
    WRAPPER = "mpicxx"
BUILD, ROOT = pathlib.Path(BUILD), pathlib.Path(ROOT)
COMPILER = shlex.split(COMPILER)

# Launchers of the MPIs that have a module.
LAUNCHERS = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"],
             "mpich": ["mpiexec.mpich"]}

# All levels are inside one node, so one machine can run the plan.
CLUSTER = """\
terrace_topology: 1
name: two-sockets
levels:
  - {name: socket, size: 2, fabric: shm}
  - {name: node, size: 2, fabric: bus}
"""
WITHOUT_MPI = ("loopback", "without_mpi")  # examples
# Expected output of the examples on 4 ranks, rank by rank.
PRINTED = {
    "allreduce": [f"rank {r} of 4: 4" for r in range(4)],
    "reduce_scatter": [f"rank {r} of 4: 2.5, {7 if r == 3 else 10} times 4" for r in range(4)],
    "allgather": [f"rank {r} of 4: 0 to 3, abbcccdddd" for r in range(4)],
    "broadcast": [f"rank {r} of 4: 0.5" for r in range(4)],
    "split": [f"rank {r} of 4: {r % 2} of 2 in its row, sum {5 if r > 1 else 1}" for r in range(4)],
    "reduce": ["of 4 ranks: 0.75 and -1"],
}


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True, stdin=subprocess.DEVNULL,
                          timeout=240, **more)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def at_once(function, things):
    """Calls the function for each item, one at a time per core. Returns the results."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, things))


def needs(file):
    return re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", file))


class Installed(unittest.TestCase):
    """Installs below self.prefix, and keeps the build's own record of installed files."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.stage = self.directory / "stage"
        log = BUILD / "meson-logs/install-log.txt"
        before = log.read_bytes() if log.exists() else None
        self.addCleanup(lambda: log.unlink(missing_ok=True) if before is None else log.write_bytes(before))
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", self.stage)
        self.prefix = self.stage / PREFIX.lstrip("/")
        self.libraries = self.prefix / LIBDIR
        self.modules = self.libraries / "terrace"
        self.environment = dict(os.environ, PKG_CONFIG_PATH=str(self.libraries / "pkgconfig"))

    def files(self, directory):
        return {p.relative_to(self.prefix / directory).as_posix() for p in (self.prefix / directory).rglob("*")
                if not p.is_dir()}

    def plan(self):
        (self.directory / "cluster.yaml").write_text(CLUSTER)
        run(self.prefix / "bin/terrace", "plan", "cluster.yaml", "-o", "plan.yaml", cwd=self.directory)
        return self.directory / "plan.yaml"

    def compile(self, source, program, wrapper=None):
        """Compiles as in the guide, with an MPI's compiler, or without MPI."""
        guide = (ROOT / "docs/guides/installation.md").read_text().replace("\\\n", "")
        line = re.search(r"^mpicxx (.*pkg-config.*)$", guide, re.M).group(1)
        words = line.replace("program.cpp", str(source)).replace("-o program", f"-o {program}")
        compiler = shlex.join(COMPILER)
        run("sh", "-c", f"{wrapper or compiler} -Wall -Wextra -Werror {words}",
            env=dict(self.environment, OMPI_CXX=compiler, MPICH_CXX=compiler))

    def run_examples(self, programs, names=tuple(PRINTED)):
        plan = self.plan()
        for name in names:
            with self.subTest(name):
                out = run(*MPIRUN, "-np", "4", programs / name, plan, env=self.environment)
                self.assertEqual(sorted(out.splitlines()), PRINTED[name])
        self.assertRegex(run(programs / "loopback", plan), r"^4 ranks: 4 by socket.*\n$")
        if (self.modules / "terrace-ucx.so").exists():
            meeting = dict(self.environment, TERRACE_BOOTSTRAP=f"file:{self.directory}/meeting", TERRACE_RANK="0",
                           TERRACE_SIZE="1")
            self.assertEqual(run(programs / "without_mpi", env=meeting), "1 ranks: 1\n")
        # The program catches the library's exceptions.
        for program in [[*MPIRUN, "-np", "1", programs / "allreduce"], [programs / "loopback"]]:
            said = r"(?s): 1\n(.*\n)?terrace: missing\.yaml: cannot be opened: No such file"
            with self.assertRaisesRegex(AssertionError, said):
                run(*program, "missing.yaml", env=self.environment)


class Files(Installed):
    def test_installs_everything_and_removes_it_again(self):
        own = {f"terrace/{p.name}" for p in (ROOT / "include/terrace").iterdir() if p.suffix in (".hpp", ".h", ".def")}
        self.assertEqual(self.files("include"), own | {"terrace/version.hpp", "terrace/mpi_library.h"})
        self.assertEqual(self.files("bin"), {"terrace", "terrace-bench"})
        self.assertEqual({f for f in self.files("share") if not f.startswith("doc/")},
                         {"man/man1/terrace.1", "man/man1/terrace-bench.1", "man/man7/libterrace-pmpi.7",
                          "bash-completion/completions/terrace", "bash-completion/completions/terrace-bench"})
        tools = ["bench-suite", "cluster_layout.py", "rounds.py", "running.py", "vcluster"]
        self.assertEqual(self.files("libexec"), {f"terrace/tools/{n}" for n in tools})
        self.assertIn("usage: terrace-bench --suite", run(self.prefix / "bin/terrace-bench", "--suite", "--help"))
        for file in ["README.md", "docs/explanation/architecture.md", "docs/collectives/allreduce.md",
                     "docs/examples/allreduce.cpp", "docs/examples/CMakeLists.txt",
                     "topologies/two-by-four/cluster.yaml"]:
            self.assertIn(file, self.files("share/doc/terrace"))
        libraries = self.files(LIBDIR)
        module = {p.name for p in BUILD.glob("lib/transport/*/terrace-*.so")}
        self.assertTrue(module & {"terrace-openmpi.so", "terrace-mpich.so"})
        self.assertEqual({f for f in libraries if not f.startswith("libterrace.so")},
                         {"pkgconfig/terrace.pc", "cmake/terrace/terrace-config.cmake",
                          "cmake/terrace/terrace-config-version.cmake"} | {f"terrace/{m}" for m in module} |
                         {f"terrace/{p.parent.name}/{p.name}" for p in BUILD.glob("pmpi/*/libterrace-pmpi.so")})
        self.assertNotIn("meson.build", {pathlib.Path(f).name for f in self.files(".")})
        run("ninja", "-C", BUILD, "uninstall")
        self.assertEqual(sorted(self.stage.rglob("*")), [])

    def compile(self, text, *options, language="c++"):
        """Returns the compiler's messages for a program; empty if it compiles."""
        command = [*COMPILER, "-fsyntax-only", "-I", self.prefix / "include", *options, "-x", language, "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, env=dict(os.environ, LC_ALL="C"))
        return done.stderr if done.returncode else ""

    def test_headers_stand_alone_and_define_no_macros_but_their_own(self):
        alone = [f"#include <terrace/{header.name}>\n" for header in (self.prefix / "include/terrace").glob("*.hpp")
                 if header.name not in ("mpi.hpp", "mpi_error.hpp", "nccl.hpp")]  # these need MPI's headers
        for errors in at_once(lambda text: self.compile(text, "-std=c++20", "-Wall", "-Werror"), alone):
            self.assertEqual(errors, "")
        macros = run(*COMPILER, "-std=c++20", "-dM", "-E", "-include", "terrace/terrace.hpp",
                     "-I", self.prefix / "include", "-x", "c++", "/dev/null")
        found = set(re.findall(r"#define (TERRACE_\w+)", macros))
        self.assertEqual(found, {"TERRACE_API"} | {f"TERRACE_VERSION_{part}" for part in ("MAJOR", "MINOR", "PATCH")})

    def test_the_c_header_is_c11_and_cxx(self):
        text = "#include <terrace/terrace.h>\n"
        strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wstrict-prototypes", "-Werror"]
        self.assertEqual(self.compile(text, "-std=c11", *strict, language="c"), "")
        self.assertEqual(self.compile(text, "-std=c++20", *strict[:3], "-Werror"), "")
        macros = run(*COMPILER, "-std=c11", "-dM", "-E", "-include", "terrace/terrace.h", "-I", self.prefix / "include",
                     "-x", "c", "/dev/null")
        self.assertEqual(re.findall(r"#define ((?i:TERRACE)\w+)", macros), [])

    def test_exports_the_c_functions_of_the_list(self):
        listed = (ROOT / "tests/install/c_functions.txt").read_text().split()
        headers = [header.read_text() for header in (self.prefix / "include/terrace").glob("terrace*.h")
                   if header.name != "terrace_mpi.h"]  # its functions are inline
        declared = set(re.findall(r"^[\w *]+ (terrace_\w+)\(", "".join(headers), re.M))
        exported = {word for line in run("nm", "-D", "--defined-only", self.libraries / "libterrace.so").splitlines()
                    if re.fullmatch(r"[a-z]\w+", word := line.split()[-1]) and not word.startswith("_")}
        self.assertEqual(listed, sorted(declared))
        self.assertEqual(listed, sorted(exported))

    def test_says_that_it_needs_cxx20(self):
        for header in ["terrace", "communicator", "types", "loopback", "window"]:
            said = self.compile(f"#include <terrace/{header}.hpp>\n", "-std=c++17")
            first = next(line for line in said.splitlines() if "error" in line)
            self.assertIn("Terrace needs C++20: compile with -std=c++20", first)

    def test_refuses_an_mpi_that_it_has_no_module_for(self):
        for macro, defined, name, other in [
                ("OPENMPI", "OMPI_MAJOR_VERSION 4", "Open MPI's", "mpicxx.mpich"),
                ("MPICH", 'MPICH_VERSION "4"', "MPICH's", "mpicxx.openmpi"),
                ("MPIABI", "MPI_ABI_VERSION 1", "of the standard ABI", "mpicxx")]:
            (self.directory / "mpi.h").write_text(f"#define {defined}\n")
            modules = self.prefix / "include/terrace/mpi_library.h"
            self.assertRegex(modules.read_text(), rf"#define TERRACE_HAS_{macro} [01]\n")
            modules.write_text(re.sub(rf"(HAS_{macro}) [01]", r"\1 0", modules.read_text()))
            said = self.compile("#include <terrace/mpi.hpp>\n", "-std=c++20", "-I", self.directory)
            self.assertIn(f"this <mpi.h> is {name}, which Terrace has no module for: compile with {other}", said)

    def test_internals_are_out_of_reach(self):
        for words in ["(void)&terrace::communicator::inside;", "(void)&terrace::plan::get;",
                      "terrace::communicator c(nullptr);", "terrace::plan p(nullptr);",
                      "terrace::window<int> w(nullptr, 3);", "terrace::request r(nullptr, 3);"]:
            said = self.compile(f"#include <terrace/terrace.hpp>\nint main() {{ {words} }}\n", "-std=c++20")
            self.assertRegex(said, "private|no member|not a member|no matching|incomplete", words)

    def test_links_lead_to_files(self):
        pages = self.prefix / "share/doc/terrace"
        run(sys.executable, ROOT / "tests/docs/docs_test.py", pages, "Docs.test_links_lead_to_files")

    def test_needs_no_gpu(self):
        for file in [*self.libraries.glob("libterrace.so.*"), *(self.prefix / "bin").iterdir()]:
            self.assertIn("libc.so.6", needs(file))
            self.assertEqual([n for n in needs(file) if re.search("cuda|nccl|nvidia", n)], [], file)

    def test_needs_no_mpi(self):
        for file in [*self.libraries.glob("libterrace.so.*"), self.prefix / "bin/terrace"]:
            self.assertEqual([n for n in needs(file) if re.search("mpi", n)], [], file)
        for module in self.modules.glob("terrace-*mpi*.so"):
            self.assertEqual(len([n for n in needs(module) if re.search("mpi", n)]), 1, module)

    def test_has_one_version(self):
        text = (self.prefix / "include/terrace/version.hpp").read_text()
        version = re.search(r'"(\d+\.\d+\.\d+)"', text).group(1)
        self.assertEqual(run("pkg-config", "--modversion", "terrace", env=self.environment).strip(), version)
        self.assertEqual(run(self.prefix / "bin/terrace", "--version"), f"terrace {version}\n")
        compatible = version.rpartition(".")[0] if version.startswith("0.") else version.partition(".")[0]
        for name in ["libterrace.so", f"libterrace.so.{compatible}"]:
            self.assertEqual((self.libraries / name).resolve().name, f"libterrace.so.{version}")

    def test_exports_the_public_interface_only(self):
        if shutil.which("nm") is None:
            self.skipTest("no nm here")
        headers = "".join(p.read_text() for p in (self.prefix / "include/terrace").glob("*.hpp"))
        marked = set(re.findall(r"(?:class|struct) (?:\[\[\w+\]\] )?TERRACE_API (\w+)", headers))
        marked |= set(re.findall(r"^TERRACE_API [^;(]*?(\w+)\(", headers, re.M))
        self.assertIn("communicator", marked)
        function = r"^(?!TERRACE_API|using|constexpr|inline|template)[a-z][\w:&*<> ]* \w+\("
        templates = r"^template <.*>\n(?: *requires .*\n(?: +.*\n)*)?[^\n]*\n"  # compiled in the programs
        compiled = re.sub(templates, "", headers, flags=re.M)
        self.assertEqual(re.findall(function, compiled, re.M), [], "without TERRACE_API")
        c_functions = (ROOT / "tests/install/c_functions.txt").read_text().split()
        public = set()
        for line in run("nm", "-DC", "--defined-only", self.libraries / "libterrace.so").splitlines():
            kind, symbol = line.split(" ", 2)[1:]
            path = re.sub(r"^(typeinfo|typeinfo name|vtable) for ", "", symbol)
            path = re.split(r"[(\[<]", path)[0].split("::")
            if path[0] in c_functions:
                continue
            if path[0] != "terrace":  # instances of other libraries' templates
                self.assertIn(kind, "WVu", line)
                continue
            self.assertTrue(len(path) <= 3 and marked & set(path[1:]), f"{symbol} is not public")
            public |= marked & set(path[1:])
        self.assertLessEqual({"communicator", "plan", "input_error", "create_over_mpi", "run", "version"}, public)


class Pages(Installed):
    # An option may have several names, as "--network,--slurm".
    NAMES = r"(?:-\w, ?)?--[a-z_-]+(?:, ?--[a-z_-]+)*"

    def options(self, program, *command):
        text = run(self.prefix / "bin" / program, *command, "--help")
        found = self.long_names(re.findall(rf"^  ({self.NAMES})", text, re.M))
        self.assertIn("--help", found)
        return found

    @staticmethod
    def long_names(options):
        return {name for option in options for name in re.findall(r"--[a-z_-]+", option)}

    def complete(self, *words):
        script = self.prefix / "share/bash-completion/completions" / words[0]
        function = "_" + words[0].replace("-", "_")
        return run("bash", "-c", f'. {script}; COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; '
                                 f'{function}; echo "${{COMPREPLY[@]}}"').split()

    def test_say_what_help_says(self):
        for program, some in [("terrace", {"plan", "explain", "verify", "topo"}),
                              ("terrace-bench", {"--detect", "--links", "--suite", "--training"})]:
            page = (self.prefix / f"share/man/man1/{program}.1").read_text().replace("\\-", "-")
            commands = self.complete(program, "")
            self.assertLessEqual(some, set(commands))
            for command in commands:
                section = re.search(rf"^\.SS {program} {command}\n(.*?)(?=^\.S[SH])", page, re.M | re.S).group(1)
                options = self.options(program, command) | {word for word in [command] if word.startswith("--")}
                self.assertEqual(self.long_names(re.findall(rf"^\.B ({self.NAMES})", section, re.M)), options)
                self.assertEqual(set(self.complete(program, command, "--")), options)

    def test_every_program_and_the_drop_in_have_one(self):
        pages = self.files("share/man")
        for program in (self.prefix / "bin").iterdir():
            self.assertIn(f"man1/{program.name}.1", pages)
        drop_ins = {library.stem for library in self.libraries.glob("terrace/*/*.so")}
        self.assertEqual(drop_ins, {"libterrace-pmpi"})
        page = (self.prefix / "share/man/man7/libterrace-pmpi.7").read_text()
        table = (ROOT / "docs/reference/environment.md").read_text()
        # The variables for single calls share a row, which has the first one in full.
        rows = " ".join(re.findall(r"^\| (`TERRACE_PMPI[^|]*)", table, re.M))
        variables = {"TERRACE_PMPI" + name if name.startswith("_") else name for name in re.findall(r"\w+", rows)}
        self.assertIn("TERRACE_PMPI_REPORT", variables)
        self.assertEqual(set(re.findall(r"^\.B (TERRACE_\w+)$", page, re.M)), variables)

    def test_complete_words(self):
        self.assertEqual(self.complete("terrace", "pl"), ["plan"])
        self.assertEqual(self.complete("terrace", "plan", "--o"), ["--output"])
        self.assertEqual(self.complete("terrace", "plan", "clu"), [])  # then bash completes file names
        self.assertEqual(self.complete("terrace-bench", "--pl"), ["--plan", "--placement"])
        self.assertEqual(self.complete("terrace-bench", "clu"), [])

    def test_are_well_formed(self):
        if shutil.which("man") is None:
            self.skipTest("no man here")
        for page in (self.prefix / "share/man").glob("man*/*"):
            done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", page], capture_output=True, text=True,
                                  env=dict(os.environ, MANWIDTH="100", MAN_KEEP_FORMATTING=""))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("SYNOPSIS", done.stdout)


class PkgConfig(Installed):
    def test_examples_build_and_run(self):
        sources = sorted((self.prefix / "share/doc/terrace/docs/examples").glob("*.cpp"))
        names = list(PRINTED)
        if "TERRACE_TEST_ALL" not in os.environ and shutil.which("cmake"):  # the test with CMake builds all
            names = ["allreduce"]
            some = [source for source in sources if source.stem in ("allreduce", *WITHOUT_MPI)]
            print(f"left out: {len(sources) - len(some)} of {len(sources)} examples through pkg-config")
            sources = some
        at_once(lambda source: self.compile(source, self.directory / source.stem,
                                            None if source.stem in WITHOUT_MPI else WRAPPER), sources)
        self.run_examples(self.directory, names)


class Mpis(Installed):
    """One installed library serves programs with each MPI, and without."""

    def setUp(self):
        super().setUp()
        self.examples = self.prefix / "share/doc/terrace/docs/examples"

    def test_every_mpi_and_none(self):
        plan = self.plan()
        for library, launcher in LAUNCHERS.items():
            if not (self.modules / f"terrace-{library}.so").exists() or shutil.which(f"mpicxx.{library}") is None:
                print(f"left out: programs with {library}, which is not here")
                continue
            with self.subTest(library):
                program = self.directory / f"allreduce-{library}"
                self.compile(self.examples / "allreduce.cpp", program, f"mpicxx.{library}")
                out = run(*launcher, "-np", "4", program, plan, env=self.environment)
                self.assertEqual(sorted(out.splitlines()), PRINTED["allreduce"])
        self.compile(self.examples / "loopback.cpp", self.directory / "loopback")
        self.assertEqual([n for n in needs(self.directory / "loopback") if "mpi" in n], [])
        self.assertRegex(run(self.directory / "loopback", plan, env=self.environment), r"^4 ranks: 4 by socket.*\n$")

    def test_a_program_of_one_mpi_that_runs_with_the_other_is_told(self):
        """Compiles with MPICH's mpi.h and links with Open MPI. The reverse would not link."""
        if any(shutil.which(f"mpicxx.{library}") is None or not (self.modules / f"terrace-{library}.so").exists()
               for library in LAUNCHERS):
            self.skipTest("takes both MPIs")
        here = dict(self.environment, OMPI_CXX=shlex.join(COMPILER), MPICH_CXX=shlex.join(COMPILER))
        flags = run("pkg-config", "--cflags", "--libs", "terrace", env=here).split()
        run("mpicxx.mpich", "-std=c++20", "-DMPICH_SKIP_MPICXX", *[f for f in flags if f.startswith("-I")], "-c",
            self.examples / "allreduce.cpp", "-o", self.directory / "mixed.o", env=here)
        run("mpicxx.openmpi", self.directory / "mixed.o", "-o", self.directory / "mixed",
            *[f for f in flags if not f.startswith("-I")], f"-Wl,-rpath,{self.libraries}", env=here)
        done = subprocess.run([self.directory / "mixed"], text=True, capture_output=True, timeout=240, env=here)
        self.assertIn("terrace: mpi::create: the program was compiled with the mpi.h of MPICH, but runs with Open MPI", done.stderr)

    def test_a_missing_module_says_what_to_install(self):
        self.compile(self.examples / "allreduce.cpp", self.directory / "allreduce", WRAPPER)
        for module in self.modules.glob("terrace-*mpi*.so"):
            module.unlink()
        with self.assertRaisesRegex(AssertionError, r"terrace-(openmpi|mpich)\.so is missing: .* \(on Debian lib\w+-dev\)"):
            run(*MPIRUN, "-np", "2", self.directory / "allreduce", self.plan(), env=self.environment)


class CMake(Installed):
    def test_examples_build_and_run(self):
        build = self.directory / "build"
        environment = dict(os.environ, CXX=shlex.join(COMPILER))
        run("cmake", "-S", self.prefix / "share/doc/terrace/docs/examples", "-B", build,
            f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DMPI_CXX_COMPILER={shutil.which(WRAPPER)}", env=environment)
        run("cmake", "--build", build, "--parallel", os.cpu_count())
        self.run_examples(build)

    def test_refuses_another_version(self):
        (self.directory / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.18)\nproject(p CXX)\nfind_package(terrace 99 REQUIRED)\n")
        with self.assertRaisesRegex(AssertionError, 'compatible with requested version "99"'):
            run("cmake", "-S", self.directory, "-B", self.directory / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")


NEEDS = {"PkgConfig": "pkg-config", "Mpis": "pkg-config", "CMake": "cmake"}

if __name__ == "__main__":
    if CASE in NEEDS and shutil.which(NEEDS[CASE]) is None:
        print(f"skipped: no {NEEDS[CASE]} here")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], CASE])
