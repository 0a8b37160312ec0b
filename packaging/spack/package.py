# A recipe for Spack. Untried: there is no public archive of the source yet, so set 'url' and the
# checksum, or use 'spack develop --path DIR oxmpi@0.1.0'.

from spack.package import *


class Oxmpi(Package):
    """An MPI library and launcher with the standard ABI of MPI-5.0."""

    url = "file:///tmp/oxmpi-0.1.0.tar.gz"
    license("Apache-2.0 OR MIT")

    version("0.1.0", sha256="0" * 64)

    provides("mpi@:5.0")

    depends_on("c", type="build")
    depends_on("rust@1.95:", type="build")
    depends_on("binutils", type="build")

    def install(self, spec, prefix):
        Executable("cargo")("xtask", "install", "--prefix", prefix)

    def setup_run_environment(self, env):
        env.set("MPICC", join_path(self.prefix.bin, "mpicc"))
        env.set("MPICXX", join_path(self.prefix.bin, "mpicxx"))
        env.set("MPIF77", join_path(self.prefix.bin, "mpif77"))
        env.set("MPIF90", join_path(self.prefix.bin, "mpif90"))

    def setup_dependent_package(self, module, dependent_spec):
        self.spec.mpicc = join_path(self.prefix.bin, "mpicc")
        self.spec.mpicxx = join_path(self.prefix.bin, "mpicxx")
        self.spec.mpif77 = join_path(self.prefix.bin, "mpif77")
        self.spec.mpifc = join_path(self.prefix.bin, "mpif90")
