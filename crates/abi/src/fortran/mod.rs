//! The Fortran interface as data: each procedure with the Fortran types of its arguments, from the
//! table of functions. From it follow the entry points of `libmpifort_oxmpi.so.1` (crate
//! `oxmpi-fortran`), `mpif.h` ([`header()`]) and the source of the modules ([`modules()`]).
//!
//! Fortran passes everything by address. Handles are INTEGERs, a status is an array of eight
//! INTEGERs, and the length of a CHARACTER argument is a hidden argument behind all others. Module
//! `mpi_f08` has types for handles and statuses, which have the same place in memory, so its
//! procedures have the same entry points, with one difference: a buffer may come as an array
//! descriptor, which describes array sections.

mod f08;
mod header;
mod module;
mod removed;
mod sentinels;

pub use f08::{F08_HANDLES, f08_procedures};
pub use header::header;
pub use module::{SIZEOF, SizeofType, modules};
pub use sentinels::{SENTINELS, Sentinel};

use crate::constants::{CONSTANTS, ConstantKind, ERROR_CLASSES, MPI_ERR_LASTCODE};
use crate::table::{self, Function, FunctionArgument};
use std::sync::LazyLock;

/// The Fortran type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FortranType {
    Integer,
    /// `INTEGER(KIND=MPI_ADDRESS_KIND)`
    Address,
    /// `INTEGER(KIND=MPI_COUNT_KIND)`
    Count,
    /// `INTEGER(KIND=MPI_OFFSET_KIND)`
    Offset,
    DoublePrecision,
    Logical,
    Character,
    /// Eight INTEGERs.
    Status,
    /// Anything: the address is passed.
    Choice,
    /// A procedure of the program.
    External,
}

/// An argument of a procedure.
#[derive(Clone, Debug)]
pub struct FortranArgument {
    /// The name in the standard.
    pub name: &'static str,
    /// The type.
    pub fortran_type: FortranType,
    /// The dimensions, with parentheses; empty for a scalar.
    pub dimensions: &'static str,
    /// The argument of the C function.
    pub c: Option<&'static FunctionArgument>,
}

/// A procedure of the interface: a subroutine, or a function with a result.
#[derive(Debug)]
pub struct Procedure {
    /// The name, as the standard writes it.
    pub name: &'static str,
    /// The C function that it calls.
    pub callee: &'static str,
    /// The type of the result of a function.
    pub result: Option<FortranType>,
    /// The arguments, without `ierror`.
    pub arguments: Vec<FortranArgument>,
    /// Whether `ierror` is the last argument.
    pub has_ierror: bool,
    /// The C function of the same name. Other procedures have bodies written by hand.
    pub function: Option<&'static Function>,
    /// Whether module `mpi` has no interface of it.
    pub is_removed: bool,
}

/// All procedures that call a C function, by name.
pub fn procedures() -> &'static [Procedure] {
    static PROCEDURES: LazyLock<Vec<Procedure>> = LazyLock::new(|| {
        let functions = table::functions().iter().filter(|function| has_procedure(function));
        let mut all: Vec<_> = functions.map(Procedure::of).collect();
        all.extend(removed::procedures());
        all.sort_by_key(|procedure| procedure.name);
        all
    });
    &PROCEDURES
}

/// Large counts are in module `mpi_f08` alone.
fn has_procedure(function: &Function) -> bool {
    !function.large && is_fortran(function)
}

/// The tool interface, and the conversions between C handles and integers, are for C alone.
fn is_fortran(function: &Function) -> bool {
    let name = &function.name;
    !(name.ends_with("_toint")
        || name.ends_with("_fromint")
        || name.starts_with("MPI_T_")
        || function.is_extension())
}

impl Procedure {
    fn of(function: &'static Function) -> Procedure {
        let result = match function.result {
            "double" => Some(FortranType::DoublePrecision),
            "MPI_Aint" => Some(FortranType::Address),
            _ => None,
        };
        let arguments = function.arguments.iter();
        let arguments = arguments
            .filter(|argument| !matches!(argument.name(), "argc" | "argv") || has_argv(function))
            .map(|argument| FortranArgument::of(function, argument))
            .collect();
        Procedure {
            name: &function.name,
            callee: &function.name,
            result,
            arguments,
            has_ierror: result.is_none() && !function.is_variadic(),
            function: Some(function),
            is_removed: false,
        }
    }

    /// The name of the procedure for programs without tools between.
    pub fn profiling_name(&self) -> String {
        format!("P{}", self.name)
    }

    /// The names of the arguments, with `ierror`.
    fn argument_names(&self) -> Vec<&'static str> {
        let names = self.arguments.iter().map(|argument| argument.name);
        names.chain(self.has_ierror.then_some("ierror")).collect()
    }
}

/// Fortran programs have no `argc` and `argv` for MPI_Init.
fn has_argv(function: &Function) -> bool {
    function.argument("argc").is_none()
}

impl FortranArgument {
    fn of(function: &'static Function, c: &'static FunctionArgument) -> FortranArgument {
        let facts = &c.argument;
        let is_old = function.entry.is.contains(&"deprecated");
        let fortran_type = match facts.kind.word {
            "status" => FortranType::Status,
            "flag" => FortranType::Logical,
            "string" | "strings" => FortranType::Character,
            "callback" => FortranType::External,
            // The deprecated functions have attributes of the size of an INTEGER.
            "state" | "attribute" if is_old => FortranType::Integer,
            "state" | "attribute" => FortranType::Address,
            // The address of a detached buffer cannot be returned in these interfaces.
            "pointer" if c.name() == "buffer_addr" => FortranType::Choice,
            "pointer" => FortranType::Address,
            _ if facts.kind.is_handle() => FortranType::Integer,
            _ if facts.kind.is_memory() => FortranType::Choice,
            _ => match c.base {
                "MPI_Aint" => FortranType::Address,
                "MPI_Count" => FortranType::Count,
                "MPI_Offset" => FortranType::Offset,
                "double" => FortranType::DoublePrecision,
                _ => FortranType::Integer,
            },
        };
        let is_array = facts.length.is_some();
        let dimensions = match fortran_type {
            FortranType::Choice => "(*)",
            FortranType::Status if is_array => "(MPI_STATUS_SIZE,*)",
            FortranType::Status => "(MPI_STATUS_SIZE)",
            FortranType::Character if c.name() == "array_of_argv" => "(count,*)",
            FortranType::Character if facts.kind.word == "string" => "",
            _ if c.brackets == "[][3]" => "(3,*)",
            _ if is_array => "(*)",
            _ => "",
        };
        FortranArgument { name: c.name(), fortran_type, dimensions, c: Some(c) }
    }

    /// The declaration in a subroutine of the same arguments.
    pub fn declaration(&self) -> String {
        let FortranArgument { name, dimensions, .. } = self;
        match self.fortran_type {
            FortranType::External => format!("EXTERNAL {name}"),
            other => format!("{} {name}{dimensions}", other.text()),
        }
    }
}

impl FortranType {
    /// The type in a declaration.
    pub fn text(self) -> &'static str {
        match self {
            FortranType::Integer | FortranType::Status => "INTEGER",
            FortranType::Address => "INTEGER(KIND=MPI_ADDRESS_KIND)",
            FortranType::Count => "INTEGER(KIND=MPI_COUNT_KIND)",
            FortranType::Offset => "INTEGER(KIND=MPI_OFFSET_KIND)",
            // Options of compilers change the size of DOUBLE PRECISION.
            FortranType::DoublePrecision => "REAL(KIND=OXMPI_SECONDS_KIND)",
            FortranType::Logical => "LOGICAL",
            FortranType::Character => "CHARACTER*(*)",
            FortranType::Choice => "REAL",
            FortranType::External => "EXTERNAL",
        }
    }
}

/// The predefined attribute functions, which are procedures of the library.
pub const PREDEFINED_PROCEDURES: &[&str] = &[
    "MPI_NULL_COPY_FN",
    "MPI_NULL_DELETE_FN",
    "MPI_DUP_FN",
    "MPI_COMM_NULL_COPY_FN",
    "MPI_COMM_NULL_DELETE_FN",
    "MPI_COMM_DUP_FN",
    "MPI_TYPE_NULL_COPY_FN",
    "MPI_TYPE_NULL_DELETE_FN",
    "MPI_TYPE_DUP_FN",
    "MPI_WIN_NULL_COPY_FN",
    "MPI_WIN_NULL_DELETE_FN",
    "MPI_WIN_DUP_FN",
    "MPI_CONVERSION_FN_NULL",
    "MPI_CONVERSION_FN_NULL_C",
];

/// The datatypes of default kinds whose size the options of compilers change, each with the
/// datatypes for kinds of other sizes, and the name of a constant that is 1 for such a kind.
/// Without a datatype the constant is the null datatype, which the library refuses.
const DEFAULT_KINDS: [(&str, &[(&str, &str)]); 6] = [
    ("MPI_REAL", &[("OXMPI_REAL_8", "MPI_REAL8"), ("OXMPI_REAL_16", "MPI_REAL16")]),
    ("MPI_COMPLEX", &[("OXMPI_REAL_8", "MPI_COMPLEX16"), ("OXMPI_REAL_16", "MPI_COMPLEX32")]),
    (
        "MPI_2REAL",
        &[("OXMPI_REAL_8", "MPI_2DOUBLE_PRECISION"), ("OXMPI_REAL_16", "MPI_DATATYPE_NULL")],
    ),
    ("MPI_DOUBLE_PRECISION", &[("OXMPI_DOUBLE_16", "MPI_REAL16")]),
    ("MPI_DOUBLE_COMPLEX", &[("OXMPI_DOUBLE_16", "MPI_COMPLEX32")]),
    ("MPI_2DOUBLE_PRECISION", &[("OXMPI_DOUBLE_16", "MPI_DATATYPE_NULL")]),
];

/// The value of a constant, which depends on the size of a default kind for some of them.
fn value_of(name: &str, value: i64) -> String {
    let found = DEFAULT_KINDS.iter().find(|(of, _)| *of == name);
    found.into_iter().flat_map(|(_, others)| *others).fold(
        value.to_string(),
        |text, (is_kind, other)| {
            let mut all = CONSTANTS.iter();
            let other = all.find(|constant| constant.name == *other).map_or(0, |one| one.value);
            format!("{text}+{is_kind}*({})", other - value)
        },
    )
}

/// A named constant: its name, the text of its value, and its type.
struct NamedConstant {
    name: &'static str,
    value: String,
    fortran_type: &'static str,
    /// The C type of a handle.
    handle: Option<&'static str>,
}

/// The kinds of an INTEGER and of a longer integer: with some compilers they are no sizes.
const INTEGER_KIND: &str = "SELECTED_INT_KIND(9)";
const LONG_KIND: &str = "SELECTED_INT_KIND(18)";

/// The constant that says whether array sections are passed as they are.
const SUBARRAYS_SUPPORTED: &str = "MPI_SUBARRAYS_SUPPORTED";

/// The constants that are not addresses, in groups with their titles.
fn constant_groups() -> Vec<(&'static str, Vec<NamedConstant>)> {
    let integer = |name, value: i64| NamedConstant {
        name,
        value: value_of(name, value),
        fortran_type: "INTEGER",
        handle: None,
    };
    let mut groups = vec![(
        "Kinds, and the places of the fields of a status",
        vec![
            integer("MPI_INTEGER_KIND", 4),
            integer("MPI_ADDRESS_KIND", 8),
            integer("MPI_COUNT_KIND", 8),
            integer("MPI_OFFSET_KIND", 8),
            integer("MPI_STATUS_SIZE", crate::constants::MPI_F_STATUS_SIZE.into()),
            integer("MPI_SOURCE", i64::from(crate::constants::MPI_F_SOURCE) + 1),
            integer("MPI_TAG", i64::from(crate::constants::MPI_F_TAG) + 1),
            integer("MPI_ERROR", i64::from(crate::constants::MPI_F_ERROR) + 1),
        ],
    )];
    for (at, kind) in [INTEGER_KIND, LONG_KIND, LONG_KIND, LONG_KIND].into_iter().enumerate() {
        groups[0].1[at].value = kind.to_owned();
    }
    let truth = |name| NamedConstant {
        name,
        value: ".FALSE.".into(),
        fortran_type: "LOGICAL",
        handle: None,
    };
    groups.push((
        "Array sections are copied, and the compiler knows nothing of nonblocking calls",
        vec![truth(SUBARRAYS_SUPPORTED), truth("MPI_ASYNC_PROTECTS_NONBLOCKING")],
    ));
    let classes = ERROR_CLASSES.iter().map(|class| integer(class.name, class.class.into()));
    let last = integer("MPI_ERR_LASTCODE", MPI_ERR_LASTCODE.into());
    groups.push(("Error classes", classes.chain([last]).collect()));
    for constant in CONSTANTS {
        let name = constant.name;
        if ["MPI_F_", "MPI_T_", "MPIX_"].iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let value = match constant.kind {
            // A CHARACTER has no closing zero.
            ConstantKind::Int if name.starts_with("MPI_MAX_") => constant.value - 1,
            ConstantKind::Int | ConstantKind::Handle(_) | ConstantKind::Offset => constant.value,
            ConstantKind::Enum(_) | ConstantKind::Pointer(_) | ConstantKind::Callback(_) => {
                continue;
            }
        };
        let mut named = integer(name, value);
        match constant.kind {
            ConstantKind::Offset => named.fortran_type = "INTEGER(KIND=MPI_OFFSET_KIND)",
            ConstantKind::Handle(handle) => named.handle = Some(handle),
            _ => {}
        }
        match groups.last_mut() {
            Some((title, list)) if *title == constant.group => list.push(named),
            _ => groups.push((constant.group, vec![named])),
        }
    }
    for alias in crate::constants::ALIASES {
        let target = CONSTANTS.iter().find(|constant| constant.name == alias.target);
        if let (Some(target), Some((_, list))) = (target, groups.last_mut()) {
            let mut named = integer(alias.name, target.value);
            if let ConstantKind::Handle(handle) = target.kind {
                named.handle = Some(handle);
            }
            list.push(named);
        }
    }
    groups
}

/// What the library's datatypes need of a compiler's default kinds.
#[derive(Clone, Copy, Debug)]
pub struct KindCheck {
    /// The constant in the modules.
    pub name: &'static str,
    /// An expression that divides by zero, at compile time, if the compiler differs.
    pub expression: &'static str,
    /// What is needed, as a phrase.
    pub needs: &'static str,
}

const fn needs(name: &'static str, expression: &'static str, needs: &'static str) -> KindCheck {
    KindCheck { name, expression, needs }
}

/// All checks of default kinds.
pub const KIND_CHECKS: [KindCheck; 6] = [
    needs(
        "OXMPI_NEEDS_INTEGER_OF_4_BYTES",
        "1/((32/BIT_SIZE(0))*(BIT_SIZE(0)/32))",
        "a default INTEGER of 4 bytes",
    ),
    needs(
        "OXMPI_NEEDS_USUAL_REAL",
        "1/COUNT(DIGITS(1.0)==(/24,53,113/))",
        "a default REAL of 4, 8 or 16 bytes",
    ),
    needs(
        "OXMPI_NEEDS_USUAL_DOUBLE",
        "1/COUNT(DIGITS(1.0D0)==(/53,113/))",
        "a DOUBLE PRECISION of 8 or 16 bytes",
    ),
    needs(
        "OXMPI_NEEDS_REALS_BY_KIND",
        "1/COUNT((/DIGITS(1.0_4)==24.AND.DIGITS(1.0_8)==53/))",
        "a REAL(KIND=4) of 4 bytes and a REAL(KIND=8) of 8",
    ),
    needs(
        "OXMPI_NEEDS_LOGICAL_OF_4_BYTES",
        "1/(1-ABS(SIZE(TRANSFER((/.TRUE.,.TRUE./),(/0/)))-2))",
        "a default LOGICAL of 4 bytes",
    ),
    needs(
        "OXMPI_NEEDS_USUAL_LOGICAL",
        "1/COUNT((/TRANSFER(.FALSE.,0)==0.AND.MOD(TRANSFER(.TRUE.,0),2)/=0/))",
        "an odd value for .TRUE. and 0 for .FALSE.",
    ),
];

/// The kinds of integers and of MPI_Wtime, and the constants of [`DEFAULT_KINDS`], with their
/// values in the modules.
const KIND_CONSTANTS: [(&str, &str); 6] = [
    ("OXMPI_INTEGER_KIND", INTEGER_KIND),
    ("OXMPI_LONG_KIND", LONG_KIND),
    ("OXMPI_SECONDS_KIND", "SELECTED_REAL_KIND(15)"),
    ("OXMPI_REAL_8", "COUNT((/DIGITS(1.0)==53/))"),
    ("OXMPI_REAL_16", "COUNT((/DIGITS(1.0)==113/))"),
    ("OXMPI_DOUBLE_16", "COUNT((/DIGITS(1.0D0)==113/))"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(name: &str) -> Vec<String> {
        let found = procedures().iter().find(|procedure| procedure.name == name).unwrap();
        found.arguments.iter().map(FortranArgument::declaration).collect()
    }

    #[test]
    fn arguments_have_fortran_types() {
        assert_eq!(
            declared("MPI_Recv"),
            [
                "REAL buf(*)",
                "INTEGER count",
                "INTEGER datatype",
                "INTEGER source",
                "INTEGER tag",
                "INTEGER comm",
                "INTEGER status(MPI_STATUS_SIZE)"
            ]
        );
        assert_eq!(declared("MPI_Init"), [""; 0]);
        assert_eq!(declared("MPI_Init_thread"), ["INTEGER required", "INTEGER provided"]);
        assert_eq!(declared("MPI_Group_range_incl")[2], "INTEGER ranges(3,*)");
        assert_eq!(
            declared("MPI_Comm_spawn_multiple")[1..3],
            ["CHARACTER*(*) array_of_commands(*)", "CHARACTER*(*) array_of_argv(count,*)"]
        );
        assert_eq!(declared("MPI_Attr_put")[2], "INTEGER attribute_val");
        assert_eq!(
            declared("MPI_Comm_set_attr")[2],
            "INTEGER(KIND=MPI_ADDRESS_KIND) attribute_val"
        );
        assert_eq!(declared("MPI_Type_hvector")[2], "INTEGER stride");
    }

    #[test]
    fn every_procedure_is_there_once() {
        let names: Vec<_> = procedures().iter().map(|procedure| procedure.name).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(names.len() > 400 && !names.contains(&"MPI_T_finalize"));
    }
}
