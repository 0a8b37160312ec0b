//! Programs that call every procedure under both names, with arguments of the types of the table.
//! They are compiled and linked against an interface; the calls are never made.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use oxmpi_abi::fortran::{FortranArgument, FortranType, Procedure, f08_procedures, procedures};

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

pub(crate) fn compiles_and_links(
    name: &str,
    interface: &str,
    compiler: &str,
) -> Result<(), String> {
    if name == "mpi_f08" {
        return f08_compiles_and_links(compiler);
    }
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
    compiled_fortran(&source, compiler, &["-O0"]).map(drop)
}

/// The program for module `mpi_f08`: with and without `ierror`, and with large counts.
fn f08_compiles_and_links(compiler: &str) -> Result<(), String> {
    let (mut declarations, mut callbacks) = (BTreeSet::new(), BTreeSet::new());
    // The compiler needs much longer for one long procedure.
    let (mut parts, mut part_calls, all) = (String::new(), String::new(), f08_procedures());
    for (at, procedure) in all.iter().enumerate() {
        let mut calls = format!("  subroutine part_{at}()\n");
        let words: Vec<String> = procedure
            .arguments
            .iter()
            .map(|argument| {
                let (name, declaration) = f08_variable(argument);
                if declaration.starts_with("PROCEDURE") {
                    callbacks.insert(name.clone());
                }
                declarations.insert(declaration);
                name
            })
            .collect();
        for prefix in ["", "P"] {
            let name = format!("{prefix}{}", procedure.generic_name());
            call_with(&mut calls, procedure, &name, words.clone());
            if procedure.has_ierror {
                let with_ierror = [words.clone(), vec!["ierr".into()]].concat();
                call_with(&mut calls, procedure, &name, with_ierror);
            }
        }
        parts += &format!("{calls}  end subroutine\n");
        part_calls += &format!("    call part_{at}()\n");
    }
    if all.len() < 500 || !all.iter().any(|procedure| procedure.name == "MPI_Ialltoallw_c") {
        return Err(format!("the table has {} procedures only", all.len()));
    }
    let mut text = String::from(
        "program every\n  use mpi_f08\n  use iso_c_binding\n  implicit none\n  integer :: ierr\n",
    );
    declarations.iter().for_each(|line| text += &format!("  {line}\n"));
    text += &format!(
        "  if (command_argument_count() > 1000) then\n{part_calls}  end if\n  print '(a)', 'ok'\n\
         contains\n{parts}end program\n"
    );
    let directory = TestDirectory::new("every");
    let part: String = callbacks.iter().map(|name| format!("void {name}_(void) {{}}\n")).collect();
    directory.write("every_mpi_f08_part.c", &part);
    compiled_fortran(&directory.write("every_mpi_f08.f90", &text), compiler, &["-O0"]).map(drop)
}

/// A variable, or a procedure of the program, and its declaration.
fn f08_variable(argument: &FortranArgument) -> (String, String) {
    let of = argument.f08_type();
    let dimensions = match argument.dimensions {
        _ if argument.is_f08_choice() => "(10)",
        _ if argument.fortran_type == FortranType::Choice => "",
        "(*)" | "(MPI_STATUS_SIZE,*)" => "(10)",
        "(3,*)" | "(count,*)" => "(3,2)",
        _ => "",
    };
    let letters: String = of.chars().filter(char::is_ascii_alphanumeric).collect();
    let name = format!("v_{}{}", letters.to_lowercase(), dimensions.replace(['(', ')', ','], "_"));
    let of = match argument.fortran_type {
        FortranType::Choice if argument.is_f08_choice() => "REAL".to_owned(),
        FortranType::Character => "CHARACTER(LEN=20)".to_owned(),
        _ => of,
    };
    (name.clone(), format!("{of} :: {name}{dimensions}"))
}

fn call(text: &mut String, procedure: &Procedure, prefix: &str) {
    let words = procedure.arguments.iter().map(|argument| variable(argument).to_owned());
    let words = words.chain(procedure.has_ierror.then(|| "ierr".to_owned())).collect();
    call_with(text, procedure, &format!("{prefix}{}", procedure.name), words);
}

fn call_with(text: &mut String, procedure: &Procedure, name: &str, words: Vec<String>) {
    let call = if procedure.result.is_some() { "print *," } else { "call" };
    // A line of free form has 132 characters.
    let mut line = format!("    {call} {name}(");
    for (at, word) in words.iter().enumerate() {
        if line.len() + word.len() > 100 {
            let _ = writeln!(text, "{line}&");
            line = "      ".to_owned();
        }
        line += word;
        line += if at + 1 < words.len() { ", " } else { "" };
    }
    let _ = writeln!(text, "{line})");
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
