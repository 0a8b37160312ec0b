//! A program that calls every procedure under both names, with arguments of the types of the table.
//! It is compiled and linked against an interface; the calls are never made.

use std::fmt::Write as _;

use oxmpi_abi::fortran::{FortranArgument, FortranType, Procedure, procedures};

use crate::support::{TestDirectory, compiled_fortran};

const DECLARATIONS: &str = "  \
  integer :: i, ia(10), ir(3,2), ierr
  integer(MPI_ADDRESS_KIND) :: a, aa(10)
  integer(MPI_COUNT_KIND) :: c, ca(10)
  integer(MPI_OFFSET_KIND) :: o, oa(10)
  double precision :: d, x(10)
  logical :: l, la(10)
  character(len=20) :: s, sa(2), sm(2,2)
  integer :: st(MPI_STATUS_SIZE), sts(MPI_STATUS_SIZE,2)
  external :: procedure_of_program
";

pub(crate) fn compiles_and_links(name: &str, interface: &str) -> Result<(), String> {
    let (before, after) = match interface.starts_with("use") {
        true => (interface, ""),
        false => ("", interface),
    };
    let mut text = format!(
        "program every\n  {before}\n  implicit none\n  {after}\n{DECLARATIONS}  \
         if (command_argument_count() > 1000) then\n"
    );
    // Module mpi leaves the removed procedures to implicit interfaces.
    let mut count = 0;
    for procedure in procedures() {
        for prefix in ["", "P"] {
            call(&mut text, procedure, prefix);
            count += 1;
        }
    }
    text += "  end if\n  print '(a)', 'ok'\nend program\n\nsubroutine procedure_of_program()\nend subroutine\n";
    if count < 800 {
        return Err(format!("the table has {count} procedures only"));
    }
    let directory = TestDirectory::new("every");
    let source = directory.write(&format!("every_{name}.f90"), &text);
    compiled_fortran(&source).map(drop)
}

fn call(text: &mut String, procedure: &Procedure, prefix: &str) {
    let mut words: Vec<&str> = procedure.arguments.iter().map(variable).collect();
    if procedure.has_ierror {
        words.push("ierr");
    }
    let call = match procedure.result {
        Some(FortranType::DoublePrecision) => "d =",
        Some(_) => "a =",
        None => "call",
    };
    let _ = writeln!(text, "    {call} {prefix}{}({})", procedure.name, words.join(", "));
}

fn variable(argument: &FortranArgument) -> &'static str {
    match (argument.fortran_type, argument.dimensions) {
        (FortranType::Integer, "") => "i",
        (FortranType::Integer, "(3,*)") => "ir",
        (FortranType::Integer, _) => "ia",
        (FortranType::Address, "") => "a",
        (FortranType::Address, _) => "aa",
        (FortranType::Count, "") => "c",
        (FortranType::Count, _) => "ca",
        (FortranType::Offset, "") => "o",
        (FortranType::Offset, _) => "oa",
        (FortranType::DoublePrecision, _) => "d",
        (FortranType::Logical, "") => "l",
        (FortranType::Logical, _) => "la",
        (FortranType::Character, "") => "s",
        (FortranType::Character, "(*)") => "sa",
        (FortranType::Character, _) => "sm",
        (FortranType::Status, "(MPI_STATUS_SIZE)") => "st",
        (FortranType::Status, _) => "sts",
        (FortranType::Choice, _) => "x",
        (FortranType::External, _) => "procedure_of_program",
    }
}
