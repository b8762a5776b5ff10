"""Terrace for Spack 1.0 and later: copy this file into packages/terrace/ of a repository of your
own, and call `spack install --no-checksum terrace` in the folder that has terrace-VERSION.tar.xz
of tools/release."""

import os

from spack_repo.builtin.build_systems.meson import MesonPackage

from spack.package import *


class Terrace(MesonPackage):
    """Topology-aware hierarchical collectives over MPI, UCX and NCCL, and a drop-in for programs
    that call MPI."""

    manual_download = True
    url = f"file://{os.getcwd()}/terrace-0.1.0.tar.xz"

    license("BSD-3-Clause")

    version("0.1.0")

    variant("ucx", default=True, description="Messages without MPI, over UCX")
    variant("pmix", default=True, description="Ranks without MPI find one another by PMIx")
    variant("cuda", default=False, description="Device buffers, through CUDA and NCCL")

    with default_args(type="build"):
        depends_on("c")
        depends_on("cxx")
        depends_on("meson@1.0:")
        depends_on("cli11")
        depends_on("nlohmann-json")
        depends_on("python@3.9:")
    depends_on("fmt")
    depends_on("hwloc@2.5:2")
    depends_on("mpi@3:")
    depends_on("pugixml")
    depends_on("xxhash")
    depends_on("yaml-cpp")
    depends_on("ucx@1.13:", when="+ucx")
    depends_on("pmix@4.2:", when="+pmix")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl@2.22:", when="+cuda")

    requires("^[virtuals=mpi] openmpi@4.1:5", "^[virtuals=mpi] mpich@4:", policy="one_of")

    def meson_args(self):
        mpi = "openmpi" if self.spec.satisfies("^[virtuals=mpi] openmpi") else "mpich"
        optional = [
            f"-D{name}={'enabled' if f'+{name}' in self.spec else 'disabled'}"
            for name in ("ucx", "pmix", "cuda")
        ]
        # All files of a library are one unit, which halves the time of the build.
        unity = ["-Dunity=on", "-Dunity_size=100", "-Dcpp_args=-Wno-subobject-linkage"]
        return ["-Dtests=false", "-Dwerror=false", f"-Dmpi={mpi}", *optional, *unity]

    def test_plan(self):
        """plan for an installed topology"""
        topologies = self.prefix.share.doc.terrace.topologies
        which(self.prefix.bin.terrace)("plan", join_path(topologies, "two-by-four", "cluster.yaml"))
