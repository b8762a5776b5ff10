"""Builds libterrace and the program `terrace`, and puts them into the wheel with the libraries that they need.

The build directory is TERRACE_BUILD if set, otherwise python/build. Meson sets it up if necessary, with the options
of TERRACE_SETUP.
MPI, UCX, PMIx and NCCL are loaded when a program runs: the wheel contains their modules, but not these libraries.
"""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # only the version is needed
    BuildHookInterface = object  # type: ignore[misc, assignment]

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE / "source" if (HERE / "source").exists() else HERE.parent  # in a source distribution, in a checkout
# The oldest glibc for which a wheel is made (2.N), and the first one whose systems have libstdc++ 12 (PEP 600).
OLDEST_GLIBC, GLIBC_WITH_LIBSTDCXX = 28, 36
# Files of the build that are in the wheel: library, program, modules.
OWN = ("lib/api/libterrace.so.?.?.?", "tools/terrace", "lib/transport/*/terrace-*.so")
# All files of a library or program are one unit, which halves the compile time. GCC's warning is wrong there.
ONE_UNIT = ("-Dunity=on", "-Dunity_size=100")
# Libraries that are loaded when a program runs.
OPTIONAL = re.compile(r"lib(mpi|mpich|open-|uc[pst]|ucm|pmix|nccl|cuda)")
# Libraries of every Linux, according to the same document.
EVERYWHERE = re.compile(r"(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|util|resolv|z)|ld-linux[\w-]*)\.so")


def project_version() -> str:
    """Returns the version in meson.build."""
    found = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())
    assert found is not None
    return found[1]


def output_of(*command: str | os.PathLike[str]) -> str:
    done = subprocess.run([os.fspath(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr or done.stdout}")
    return done.stdout


def build() -> pathlib.Path:
    """Builds the parts of the wheel. Returns the build directory."""
    directory = pathlib.Path(os.environ.get("TERRACE_BUILD", HERE / "build")).resolve()
    if not (directory / "build.ninja").exists():
        # assert() contains names of source files, here without directories, so two builds are equal.
        maps = f"-ffile-prefix-map={directory}/= -ffile-prefix-map={ROOT}/="
        arguments = f"-Dcpp_args=-Wno-subobject-linkage {maps}"
        output_of("meson", "setup", directory, ROOT, "-Ddebug=false", "-Dwerror=false", "-Dtests=false", *ONE_UNIT,
                  arguments, *os.environ.get("TERRACE_SETUP", "").split())
    made = json.loads(output_of("meson", "introspect", "--targets", directory))
    names = [os.path.relpath(name, directory) for target in made for name in target["filename"]]
    output_of("ninja", "-C", directory, *(name for name in names if any(fnmatch(name, own) for own in OWN)))
    return directory


def needed_by(file: pathlib.Path) -> dict[str, pathlib.Path]:
    """Returns the libraries that a file needs, by name. Optional and common ones, and their needs, are left out."""
    direct = re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-d", file))
    places = dict(re.findall(r"(\S+) => (/\S+)", output_of("ldd", file)))
    found: dict[str, pathlib.Path] = {}
    for name in direct:
        if name in places and not OPTIONAL.match(name) and not EVERYWHERE.match(name):
            found[name] = pathlib.Path(places[name])
            found |= needed_by(found[name])
    return found


def gather(directory: pathlib.Path, into: pathlib.Path) -> list[pathlib.Path]:
    """Copies library, modules, program and their dependencies. Each then finds the others in its own directory."""
    own = [file for pattern in OWN for file in sorted(directory.glob(pattern))]
    files = {file.name: file for file in own}
    for file in own:
        files |= needed_by(file)
    files.pop("libterrace.so", None)
    made = []
    for name, file in files.items():
        target = into / re.sub(r"^(libterrace\.so)\..*", r"\1", name)
        shutil.copy(file.resolve(), target)
        target.chmod(0o755)
        output_of("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN", target)
        output_of("strip", "--strip-unneeded", target)
        made.append(target)
    return made


def platform(files: list[pathlib.Path]) -> str:
    """Returns the name (PEP 600) of the oldest systems that can run these files."""
    said = output_of("readelf", "--wide", "--dynamic", "--version-info", *files)
    newest = max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", said))
    return f"manylinux_2_{max(newest, GLIBC_WITH_LIBSTDCXX if 'libstdc++' in said else OLDEST_GLIBC)}"


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc]
    """The hook that hatchling calls."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._directory = tempfile.TemporaryDirectory()
        files = gather(build(), pathlib.Path(self._directory.name))
        build_data["force_include"] |= {str(f): f"terrace/lib/{f.name}" for f in files}
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform(files)}_{os.uname().machine}"
