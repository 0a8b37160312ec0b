use super::Language;

const HEADERS: &str = "  -mpi-compat              let mpi.h have names that were removed from MPI as well: MPI_Address, MPI_Type_struct,
                           MPI_Errhandler_set and others (see include/mpi_compat.h); OXMPI_MPI_COMPAT=1 in the
                           environment does the same where an option does not get through, as with libtool
  -mpi-abi-strict          let mpi.h have nothing beyond the binary interface of MPI-5.0: no MPI_Fint, MPI_Comm_c2f,
                           MPI_Comm_f2c and their kin, which are inline functions otherwise
";

const MODULES: &str = "\
The modules are compiled when a compiler is first used, into PREFIX/lib/oxmpi/modules or, if that cannot be written,
into $XDG_CACHE_HOME/oxmpi or ~/.cache/oxmpi. With options that change the default REAL (-fdefault-real-8, -r8)
MPI_REAL and other datatypes have the new size. Options that change the default INTEGER (-i8) are refused.
";

pub(super) fn text(language: Language) -> String {
    let (name, also, file) = match language {
        Language::C => ("mpicc", "", "c"),
        Language::Cxx => ("mpicxx", " (mpic++ and mpiCC are the same)", "cc"),
        Language::Fortran => ("mpifort", " (mpif90 and mpif77 are the same)", "f90"),
    };
    let (example, files, options) = match language {
        Language::Fortran => (
            "flang",
            "mpif.h and the modules mpi and mpi_f08 and, when it links, libmpifort_oxmpi.so",
            MODULES,
        ),
        Language::C | Language::Cxx => {
            ("clang", "mpi.h and, when it links, libmpi_abi.so", HEADERS)
        }
    };
    let pkg_config = match language {
        Language::Fortran => {
            "pkg-config knows the same without modules as 'oxmpi-fort'. 'cargo xtask install --fortran\n\
             COMPILER' adds 'oxmpi-fort-COMPILER' with modules."
        }
        Language::C | Language::Cxx => {
            "pkg-config knows the same as 'oxmpi' (PKG_CONFIG_PATH=PREFIX/lib/pkgconfig)."
        }
    };
    let [own, open_mpi, mpich] = language.variables();
    let option = language.option();
    format!(
        "\
{name}: compile {} programs that use MPI{also}

Runs the compiler with your arguments, in your order, and those that find {files}.

  {name} -O2 program.{file} -o program

The compiler is '{}', or that of
  {option}COMPILER            such as {option}{example}, or '{option}ccache {example}'
  {own}, {open_mpi}, {mpich} in the environment, the first that is set

{options}
These print something instead of compiling:
  -show, -showme           the whole command
  -showme:command          the compiler
  -showme:compile          the arguments for compiling
  -showme:link             the arguments for linking
  -showme:incdirs          the directories of headers and modules
  -showme:libdirs          the directory of the library
  -showme:libs             the name of the library
  -showme:version          the version of OxMPI
  -compile_info            the command for compiling; also -show-compile-info
  -link_info               the command for linking; also -show-link-info

All other arguments are the compiler's; '{name} --version' is its version. CMake's find_package(MPI) runs {name} itself,
if it is in PATH or below MPI_HOME. {pkg_config}
",
        language.name(),
        language.compiler(),
    )
}
