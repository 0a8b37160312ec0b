//! The source of module `mpi_f08`, and of the types that both modules have.
//!
//! A procedure has the generic name `MPI_X`. Behind it are specific procedures, one for INTEGER
//! counts and one for large ones, with the names of MPI-5.0 section 19.1.5: `MPI_X_f08ts` if a
//! buffer comes as an array descriptor (TYPE(*), DIMENSION(..)), else `MPI_X_f08`. A compiler
//! without descriptors that the library can read gets `MPI_X_f08` with addresses throughout: the
//! lines between `!OXMPI ELSE` and `!OXMPI END` instead of those behind `!OXMPI IF DESCRIPTORS`.
//!
//! A compiler passes a descriptor of the C standard to procedures with BIND(C) only, so all
//! procedures with descriptors have it. Their linker names end with an underscore, like the names
//! of other procedures.
//!
//! Arguments that a call changes are INTENT(INOUT), because a compiler may destroy the variable of
//! an INTENT(OUT) argument before the call, and the arguments of a failed call must stay as they
//! were.

use super::module::{
    choice, head, kind_constants, own_constants, sentinels, sizeof, value_in_modules,
};
use super::{
    FortranArgument, FortranType, PREDEFINED_PROCEDURES, Procedure, SUBARRAYS_SUPPORTED,
    constant_groups, is_fortran,
};
use crate::table::{self, FunctionForm, Intent};
use std::fmt::Write;
use std::sync::LazyLock;

/// The handle types: each is an INTEGER in a type of its own.
pub const F08_HANDLES: [&str; 11] = [
    "MPI_Comm",
    "MPI_Datatype",
    "MPI_Errhandler",
    "MPI_File",
    "MPI_Group",
    "MPI_Info",
    "MPI_Message",
    "MPI_Op",
    "MPI_Request",
    "MPI_Session",
    "MPI_Win",
];

/// All procedures of module `mpi_f08` that call a C function, by name. Those with large counts have
/// the names of the C functions, `MPI_X_c`.
pub fn f08_procedures() -> &'static [Procedure] {
    static PROCEDURES: LazyLock<Vec<Procedure>> = LazyLock::new(|| {
        let functions = table::functions().iter().filter(|function| {
            let name = function.name.as_str();
            let is_old = ["MPI_Attr_", "MPI_Keyval_"].iter().any(|old| name.starts_with(old));
            is_fortran(function) && !is_old
        });
        let mut all: Vec<_> = functions.map(Procedure::of).collect();
        // An address and a count have the same kind, so some large forms have the arguments of the
        // plain ones. A generic name cannot have both.
        let signatures: Vec<_> = all.iter().map(|one| (one.name, one.signature())).collect();
        all.retain(|procedure| {
            let Some(plain) = procedure.name.strip_suffix("_c") else { return true };
            let same = (plain, procedure.signature());
            !signatures.contains(&same)
        });
        all
    });
    &PROCEDURES
}

impl Procedure {
    /// The types of the arguments in module `mpi_f08`. Addresses, counts and offsets have one kind.
    fn signature(&self) -> Vec<String> {
        let types = self.arguments.iter().map(FortranArgument::f08_type);
        types.map(|of| of.replace("ADDRESS", "COUNT").replace("OFFSET", "COUNT")).collect()
    }

    /// The name by which a program calls a procedure of module `mpi_f08`.
    pub fn generic_name(&self) -> &'static str {
        // A compiler does not see whether a procedure that is an argument has large counts.
        match self.arguments.iter().any(|argument| argument.fortran_type == FortranType::External) {
            true => self.name,
            false => self.name.strip_suffix("_c").unwrap_or(self.name),
        }
    }

    /// Whether an argument is a buffer that comes as a descriptor in module `mpi_f08`. Standard
    /// Fortran has no default LOGICAL in procedures with BIND(C).
    pub fn has_choice(&self) -> bool {
        let has_logical =
            self.arguments.iter().any(|argument| argument.fortran_type == FortranType::Logical);
        self.arguments.iter().any(FortranArgument::is_f08_choice) && !has_logical
    }

    /// Whether the compiler must expect an access to buffers after the call returns.
    fn is_asynchronous(&self) -> bool {
        self.function.is_some_and(|function| {
            function.form != FunctionForm::Plain || function.argument("win").is_some()
        }) || ["_begin", "_end", "_attach", "_buffer", "_address", "_init"]
            .iter()
            .any(|end| self.name.trim_end_matches("_c").ends_with(end))
    }
}

impl FortranArgument {
    /// Whether the argument is a buffer of any type and rank in module `mpi_f08`. The address of a
    /// detached buffer is a TYPE(C_PTR) there.
    pub fn is_f08_choice(&self) -> bool {
        self.fortran_type == FortranType::Choice && !self.is_pointer()
    }

    /// Whether the argument is a TYPE(C_PTR) in module `mpi_f08`.
    fn is_pointer(&self) -> bool {
        self.c.is_some_and(|c| c.argument.kind.word == "pointer")
    }

    /// The type in module `mpi_f08`.
    pub fn f08_type(&self) -> String {
        if self.is_pointer() {
            return "TYPE(C_PTR)".into();
        }
        match (self.fortran_type, self.c) {
            (FortranType::Integer, Some(c)) if c.argument.kind.is_handle() => {
                format!("TYPE({})", c.base)
            }
            (FortranType::External, Some(c)) => format!("PROCEDURE({})", c.base),
            (FortranType::Choice, _) => "TYPE(*), DIMENSION(..)".into(),
            (FortranType::Status, _) => "TYPE(MPI_Status)".into(),
            (FortranType::Character, _) => "CHARACTER(LEN=*)".into(),
            (other, _) => other.text().into(),
        }
    }

    fn f08_declaration(&self, is_asynchronous: bool) -> String {
        let intent = self.c.map_or(Intent::InOut, |c| c.argument.intent);
        // A special variable may stand for a status or an array of error codes that the caller
        // does not want.
        let is_free = self.is_f08_choice()
            || self.fortran_type == FortranType::Status
            || self.name == "array_of_errcodes";
        let intent = match (intent, self.fortran_type) {
            (_, FortranType::External) => "",
            (Intent::In, _) => ", INTENT(IN)",
            _ if is_free => "",
            _ => ", INTENT(INOUT)",
        };
        // A compiler may take the address of an argument without TARGET for forgotten when the call
        // returns. GNU Fortran then drops assignments that a message of MPI_BOTTOM would read.
        // The communicator of MPI_Comm_idup is stored when the request completes.
        let is_stored_later = self.is_f08_choice() || self.name == "newcomm";
        let is_remembered = is_asynchronous && is_stored_later;
        let more = if is_remembered { ", ASYNCHRONOUS, TARGET" } else { "" };
        let dimensions = match self.fortran_type {
            FortranType::Choice => "",
            FortranType::Status if self.dimensions.contains('*') => "(*)",
            FortranType::Status => "",
            _ => self.dimensions,
        };
        format!("{}{intent}{more} :: {}{dimensions}", self.f08_type(), self.name)
    }
}

/// The source of module `mpi_f08_types`.
pub(super) fn types_module() -> String {
    let mut text = String::from(
        "MODULE mpi_f08_types\n  IMPLICIT NONE\n  PRIVATE\n\n  \
         PUBLIC :: OPERATOR(==), OPERATOR(/=)\n  \
         PUBLIC :: MPI_Status_f2f08, MPI_Status_f082f, PMPI_Status_f2f08, PMPI_Status_f082f\n\n  \
         TYPE, BIND(C), PUBLIC :: MPI_Status\n    \
         INTEGER :: MPI_SOURCE, MPI_TAG, MPI_ERROR\n    \
         INTEGER, PRIVATE :: internal(5)\n  END TYPE MPI_Status\n",
    );
    text += "\n";
    kind_constants(&mut text);
    for handle in F08_HANDLES {
        let _ = writeln!(
            text,
            "\n  TYPE, BIND(C), PUBLIC :: {handle}\n    INTEGER :: MPI_VAL\n  END TYPE {handle}"
        );
    }
    for (operator, word) in [("==", "eq"), ("/=", "ne")] {
        let _ = writeln!(text, "\n  INTERFACE OPERATOR({operator})");
        for handle in F08_HANDLES {
            let name = format!("OXMPI_{}_{word}", handle.trim_start_matches("MPI_"));
            let _ = writeln!(
                text,
                "    ELEMENTAL LOGICAL FUNCTION {name}(one, other)\n      IMPORT :: {handle}\n      \
                 TYPE({handle}), INTENT(IN) :: one, other\n    END FUNCTION {name}"
            );
        }
        text += "  END INTERFACE\n";
    }
    text += "\n  INTERFACE\n";
    for prefix in ["", "P"] {
        for (name, from, to) in [
            ("MPI_Status_f2f08", "INTEGER, INTENT(IN) :: f_status(8)", F08_STATUS),
            ("MPI_Status_f082f", F08_STATUS, "INTEGER, INTENT(INOUT) :: f_status(8)"),
        ] {
            let order = match from == F08_STATUS {
                true => "f08_status, f_status",
                false => "f_status, f08_status",
            };
            let from = from.replace("INOUT", "IN");
            let _ = writeln!(
                text,
                "    SUBROUTINE {prefix}{name}({order}, ierror)\n      IMPORT :: MPI_Status\n      \
                 {from}\n      {to}\n      {IERROR}\n    \
                 END SUBROUTINE {prefix}{name}"
            );
        }
    }
    text += "  END INTERFACE\nEND MODULE mpi_f08_types\n";
    text
}

/// The last argument of procedures of module `mpi_f08`.
pub(super) const IERROR: &str = "INTEGER, OPTIONAL, INTENT(INOUT) :: ierror";

const F08_STATUS: &str = "TYPE(MPI_Status), INTENT(INOUT) :: f08_status";

/// The source of module `mpi_f08`.
pub(super) fn module() -> String {
    let mut text = String::from(
        "MODULE mpi_f08\n  USE mpi_f08_types\n  \
         USE, INTRINSIC :: ISO_C_BINDING, ONLY: C_PTR\n  IMPLICIT NONE\n  \
         PRIVATE :: C_PTR\n",
    );
    own_constants(&mut text);
    for (title, constants) in constant_groups() {
        let _ = writeln!(text, "\n  ! {title}.");
        for named in constants {
            let (name, value) = (named.name, value_in_modules(&named.value));
            let (fortran_type, value) = match named.handle {
                Some(handle) => (format!("TYPE({handle})"), format!("{handle}({value})")),
                None => (named.fortran_type.to_owned(), value.to_owned()),
            };
            let line = format!("  {fortran_type}, PARAMETER :: {name} =");
            if name == SUBARRAYS_SUPPORTED {
                let with = format!("{line} .TRUE.");
                with_descriptors(&mut text, &with, &format!("{line} {value}"));
            } else {
                let _ = writeln!(text, "{line} {value}");
            }
        }
    }
    sentinels(&mut text, |sentinel| {
        let (name, dimensions) = (sentinel.name, sentinel.dimensions);
        match name {
            "MPI_STATUS_IGNORE" => format!("TYPE(MPI_Status) :: {name}"),
            "MPI_STATUSES_IGNORE" => format!("TYPE(MPI_Status) :: {name}(1)"),
            _ => format!("{} :: {name}{dimensions}", sentinel.fortran_type),
        }
    });
    text += CALLBACKS;
    text += "\n  ! Predefined procedures.\n";
    for name in PREDEFINED_PROCEDURES {
        let of = match *name {
            "MPI_NULL_COPY_FN" | "MPI_NULL_DELETE_FN" | "MPI_DUP_FN" => continue,
            "MPI_CONVERSION_FN_NULL" => "MPI_Datarep_conversion_function".to_owned(),
            "MPI_CONVERSION_FN_NULL_C" => "MPI_Datarep_conversion_function_c".to_owned(),
            _ => {
                let object = name.split('_').nth(1).unwrap_or_default();
                let verb = if name.ends_with("DELETE_FN") { "delete" } else { "copy" };
                format!("MPI_{object}_{verb}_attr_function")
            }
        };
        let _ = writeln!(text, "  PROCEDURE({of}) :: {name}");
    }
    for prefix in ["", "P"] {
        for generic in generics() {
            let _ = writeln!(text, "\n  INTERFACE {prefix}{}", generic[0].generic_name());
            for procedure in generic {
                procedure_interface(&mut text, procedure, prefix);
            }
            text += "  END INTERFACE\n";
        }
    }
    text += "\n  INTERFACE MPI_F_sync_reg\n";
    let mut with = String::new();
    head(&mut with, "SUBROUTINE MPI_F_sync_reg_f08ts", &["buf"], &bound("mpi_f_sync_reg_f08ts"));
    with += "      TYPE(*), DIMENSION(..), ASYNCHRONOUS :: buf\n    \
             END SUBROUTINE MPI_F_sync_reg_f08ts";
    let mut without = String::from("    SUBROUTINE MPI_F_sync_reg(buf)\n");
    choice(&mut without, "buf");
    without += "    END SUBROUTINE MPI_F_sync_reg";
    with_descriptors(&mut text, &with, &without);
    text += "  END INTERFACE\n";
    sizeof(&mut text, IERROR);
    text += "END MODULE mpi_f08\n";
    text
}

/// Lines for compilers with descriptors that the library can read, and lines for others.
pub(super) fn with_descriptors(text: &mut String, with: &str, without: &str) {
    let _ = writeln!(text, "!OXMPI IF DESCRIPTORS\n{with}\n!OXMPI ELSE\n{without}\n!OXMPI END");
}

pub(super) fn bound(symbol: &str) -> String {
    format!(" BIND(C, NAME=\"{symbol}_\")")
}

/// The procedures, those of one generic name together.
fn generics() -> Vec<Vec<&'static Procedure>> {
    let mut all: Vec<_> = f08_procedures().iter().collect();
    all.sort_by_key(|procedure| (procedure.generic_name(), procedure.name));
    let of_one = |one: &&Procedure, other: &&Procedure| one.generic_name() == other.generic_name();
    all.chunk_by(of_one).map(<[_]>::to_vec).collect()
}

fn procedure_interface(text: &mut String, procedure: &Procedure, prefix: &str) {
    let plain = interface(procedure, prefix, false);
    match procedure.has_choice() {
        true => with_descriptors(text, interface(procedure, prefix, true).trim_end(), &plain),
        false => *text += &plain,
    }
}

fn interface(procedure: &Procedure, prefix: &str, has_descriptors: bool) -> String {
    let mut text = String::new();
    let end = if has_descriptors { "f08ts" } else { "f08" };
    let name = format!("{prefix}{}_{end}", procedure.name);
    let kind = if procedure.result.is_some() { "FUNCTION" } else { "SUBROUTINE" };
    let names = procedure.argument_names();
    let bound = if has_descriptors { bound(&name.to_lowercase()) } else { String::new() };
    head(&mut text, &format!("{kind} {name}"), &names, &bound);
    text += "      IMPORT\n      IMPLICIT NONE\n";
    let is_asynchronous = procedure.is_asynchronous();
    // The length of an array must be declared before the array.
    let length = if names.contains(&"array_of_argv") { "count" } else { "" };
    let (first, rest): (Vec<_>, Vec<_>) =
        procedure.arguments.iter().partition(|argument| argument.name == length);
    for argument in first.into_iter().chain(rest) {
        if argument.is_f08_choice() && !has_descriptors {
            choice(&mut text, argument.name);
        } else {
            let _ = writeln!(text, "      {}", argument.f08_declaration(is_asynchronous));
        }
    }
    if procedure.has_ierror {
        let _ = writeln!(text, "      {IERROR}");
    }
    if let Some(result) = procedure.result {
        let _ = writeln!(text, "      {} :: {name}", result.text());
    }
    let _ = writeln!(text, "    END {kind} {name}");
    text
}

/// The types of procedures that a program passes to the library (MPI-5.0 appendix A.1.3).
const CALLBACKS: &str = "
  ! The types of procedures that a program passes.
  ABSTRACT INTERFACE
    SUBROUTINE MPI_User_function(invec, inoutvec, len, datatype)
      IMPORT
      TYPE(C_PTR), VALUE :: invec, inoutvec
      INTEGER :: len
      TYPE(MPI_Datatype) :: datatype
    END SUBROUTINE MPI_User_function
    SUBROUTINE MPI_User_function_c(invec, inoutvec, len, datatype)
      IMPORT
      TYPE(C_PTR), VALUE :: invec, inoutvec
      INTEGER(KIND=MPI_COUNT_KIND) :: len
      TYPE(MPI_Datatype) :: datatype
    END SUBROUTINE MPI_User_function_c
    SUBROUTINE MPI_Comm_copy_attr_function(oldcomm, comm_keyval, extra_state, attribute_val_in, &
        attribute_val_out, flag, ierror)
      IMPORT
      TYPE(MPI_Comm) :: oldcomm
      INTEGER :: comm_keyval, ierror
      INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
      LOGICAL :: flag
    END SUBROUTINE MPI_Comm_copy_attr_function
    SUBROUTINE MPI_Comm_delete_attr_function(comm, comm_keyval, attribute_val, extra_state, ierror)
      IMPORT
      TYPE(MPI_Comm) :: comm
      INTEGER :: comm_keyval, ierror
      INTEGER(KIND=MPI_ADDRESS_KIND) :: attribute_val, extra_state
    END SUBROUTINE MPI_Comm_delete_attr_function
    SUBROUTINE MPI_Type_copy_attr_function(oldtype, type_keyval, extra_state, attribute_val_in, &
        attribute_val_out, flag, ierror)
      IMPORT
      TYPE(MPI_Datatype) :: oldtype
      INTEGER :: type_keyval, ierror
      INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
      LOGICAL :: flag
    END SUBROUTINE MPI_Type_copy_attr_function
    SUBROUTINE MPI_Type_delete_attr_function(datatype, type_keyval, attribute_val, extra_state, &
        ierror)
      IMPORT
      TYPE(MPI_Datatype) :: datatype
      INTEGER :: type_keyval, ierror
      INTEGER(KIND=MPI_ADDRESS_KIND) :: attribute_val, extra_state
    END SUBROUTINE MPI_Type_delete_attr_function
    SUBROUTINE MPI_Win_copy_attr_function(oldwin, win_keyval, extra_state, attribute_val_in, &
        attribute_val_out, flag, ierror)
      IMPORT
      TYPE(MPI_Win) :: oldwin
      INTEGER :: win_keyval, ierror
      INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
      LOGICAL :: flag
    END SUBROUTINE MPI_Win_copy_attr_function
    SUBROUTINE MPI_Win_delete_attr_function(win, win_keyval, attribute_val, extra_state, ierror)
      IMPORT
      TYPE(MPI_Win) :: win
      INTEGER :: win_keyval, ierror
      INTEGER(KIND=MPI_ADDRESS_KIND) :: attribute_val, extra_state
    END SUBROUTINE MPI_Win_delete_attr_function
    SUBROUTINE MPI_Comm_errhandler_function(comm, error_code)
      IMPORT
      TYPE(MPI_Comm) :: comm
      INTEGER :: error_code
    END SUBROUTINE MPI_Comm_errhandler_function
    SUBROUTINE MPI_Win_errhandler_function(win, error_code)
      IMPORT
      TYPE(MPI_Win) :: win
      INTEGER :: error_code
    END SUBROUTINE MPI_Win_errhandler_function
    SUBROUTINE MPI_File_errhandler_function(file, error_code)
      IMPORT
      TYPE(MPI_File) :: file
      INTEGER :: error_code
    END SUBROUTINE MPI_File_errhandler_function
    SUBROUTINE MPI_Session_errhandler_function(session, error_code)
      IMPORT
      TYPE(MPI_Session) :: session
      INTEGER :: error_code
    END SUBROUTINE MPI_Session_errhandler_function
    SUBROUTINE MPI_Grequest_query_function(extra_state, status, ierror)
      IMPORT
      INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state
      TYPE(MPI_Status) :: status
      INTEGER :: ierror
    END SUBROUTINE MPI_Grequest_query_function
    SUBROUTINE MPI_Grequest_free_function(extra_state, ierror)
      IMPORT
      INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state
      INTEGER :: ierror
    END SUBROUTINE MPI_Grequest_free_function
    SUBROUTINE MPI_Grequest_cancel_function(extra_state, complete, ierror)
      IMPORT
      INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state
      LOGICAL :: complete
      INTEGER :: ierror
    END SUBROUTINE MPI_Grequest_cancel_function
    SUBROUTINE MPI_Datarep_extent_function(datatype, extent, extra_state, ierror)
      IMPORT
      TYPE(MPI_Datatype) :: datatype
      INTEGER(KIND=MPI_ADDRESS_KIND) :: extent, extra_state
      INTEGER :: ierror
    END SUBROUTINE MPI_Datarep_extent_function
    SUBROUTINE MPI_Datarep_conversion_function(userbuf, datatype, count, filebuf, position, &
        extra_state, ierror)
      IMPORT
      TYPE(C_PTR), VALUE :: userbuf, filebuf
      TYPE(MPI_Datatype) :: datatype
      INTEGER :: count, ierror
      INTEGER(KIND=MPI_OFFSET_KIND) :: position
      INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state
    END SUBROUTINE MPI_Datarep_conversion_function
    SUBROUTINE MPI_Datarep_conversion_function_c(userbuf, datatype, count, filebuf, position, &
        extra_state, ierror)
      IMPORT
      TYPE(C_PTR), VALUE :: userbuf, filebuf
      TYPE(MPI_Datatype) :: datatype
      INTEGER(KIND=MPI_COUNT_KIND) :: count
      INTEGER(KIND=MPI_OFFSET_KIND) :: position
      INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state
      INTEGER :: ierror
    END SUBROUTINE MPI_Datarep_conversion_function_c
  END INTERFACE
";

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> &'static Procedure {
        f08_procedures().iter().find(|procedure| procedure.name == name).unwrap()
    }

    #[test]
    fn arguments_have_types_and_intents() {
        let declared = |name| {
            let arguments = find(name).arguments.iter();
            arguments.map(|argument| argument.f08_declaration(false)).collect::<Vec<_>>()
        };
        assert_eq!(
            declared("MPI_Recv_c"),
            [
                "TYPE(*), DIMENSION(..) :: buf",
                "INTEGER(KIND=MPI_COUNT_KIND), INTENT(IN) :: count",
                "TYPE(MPI_Datatype), INTENT(IN) :: datatype",
                "INTEGER, INTENT(IN) :: source",
                "INTEGER, INTENT(IN) :: tag",
                "TYPE(MPI_Comm), INTENT(IN) :: comm",
                "TYPE(MPI_Status) :: status",
            ]
        );
        assert_eq!(declared("MPI_Buffer_detach")[0], "TYPE(C_PTR), INTENT(INOUT) :: buffer_addr");
        assert_eq!(declared("MPI_Op_create_c")[0], "PROCEDURE(MPI_User_function_c) :: user_fn");
        assert_eq!(declared("MPI_Waitall")[2], "TYPE(MPI_Status) :: array_of_statuses(*)");
    }

    #[test]
    fn forms_that_differ_have_one_generic_name() {
        assert_eq!(find("MPI_Send_c").generic_name(), "MPI_Send");
        assert_eq!(find("MPI_Op_create_c").generic_name(), "MPI_Op_create_c");
        // The arguments of both forms have the same kinds.
        assert!(f08_procedures().iter().all(|one| one.name != "MPI_Type_get_extent_c"));
        assert!(find("MPI_Isend").is_asynchronous() && !find("MPI_Send").is_asynchronous());
    }
}
