use super::*;
use crate::datatype::Form;
use crate::predefined::{Predefined, all};
use oxmpi_abi::constants as abi;

#[test]
fn every_legal_pair_has_a_kernel() {
    let p = Predefined::new();
    for (_, op, op_name) in OPS {
        for facts in all() {
            let found =
                accumulator_for(&Op::Predefined(op), p.get(facts.handle.into()).unwrap(), true);
            match found {
                Ok(kernel) => {
                    assert!(is_defined(op, facts.category));
                    assert_eq!(
                        (kernel.size(), kernel.is_plain()),
                        (facts.size, facts.size == facts.extent)
                    );
                }
                // Only x86-64 has the x87 format.
                Err(e)
                    if e.class() == abi::MPI_ERR_UNSUPPORTED_OPERATION
                        && !cfg!(target_arch = "x86_64") => {}
                Err(e) => {
                    assert!(!is_defined(op, facts.category), "{e}");
                    assert!(e.detail().contains(op_name) && e.detail().contains(facts.name), "{e}");
                }
            }
        }
    }
}

#[test]
fn the_table_of_the_standard() {
    let p = Predefined::new();
    let legal = |op, handle| kernel_for(&Op::Predefined(op), p.get(handle).unwrap(), true).is_ok();
    assert!(legal(PredefinedOp::Sum, 0x214) && !legal(PredefinedOp::Band, 0x214));
    assert!(legal(PredefinedOp::Band, 0x247) && !legal(PredefinedOp::Sum, 0x247));
    assert!(!legal(PredefinedOp::Sum, 0x243) && !legal(PredefinedOp::Max, 0x216));
    assert!(
        legal(PredefinedOp::Land, 0x238)
            && legal(PredefinedOp::Land, 0x209)
            && !legal(PredefinedOp::Land, 0x219)
    );
    assert!(legal(PredefinedOp::MaxLoc, 0x22d) && !legal(PredefinedOp::MaxLoc, 0x209));
}

#[test]
fn what_other_libraries_carry_out_beyond_the_table() {
    let p = Predefined::new();
    for (_, op, _) in OPS {
        for facts in all() {
            let (operation, datatype) = (Op::Predefined(op), p.get(facts.handle.into()).unwrap());
            let (strict, usual) = [true, false]
                .map(|strict| accumulator_for(&operation, datatype, strict).is_ok())
                .into();
            let more = match usize::from(facts.handle) {
                abi::MPI_CHAR => is_defined(op, Category::CInteger),
                abi::MPI_AINT | abi::MPI_OFFSET | abi::MPI_COUNT => {
                    matches!(op, PredefinedOp::Land | PredefinedOp::Lor | PredefinedOp::Lxor)
                }
                _ => false,
            };
            assert_eq!(usual, strict || more, "{op:?} on {}", facts.name);
            let error = accumulator_for(&operation, datatype, true).err();
            let names_the_parameter =
                error.is_some_and(|error| error.detail().contains("mpi_strict 0"));
            assert_eq!(names_the_parameter, more && !strict, "{op:?} on {}", facts.name);
        }
    }
    // A derived datatype has the elements of the predefined one.
    let chars = Datatype::vector(Form::Int, 3, 1, 2, p.get(abi::MPI_CHAR as u64).unwrap()).unwrap();
    let sum = Op::Predefined(PredefinedOp::Sum);
    assert_eq!(accumulator_for(&sum, &chars, false).unwrap().size(), 1);
    assert_eq!(accumulator_for(&sum, &chars, true).unwrap_err().class(), abi::MPI_ERR_OP);
}

#[test]
fn replace_and_no_op_are_for_accumulates_only() {
    let p = Predefined::new();
    for (op, handle) in [
        (PredefinedOp::Replace, 0x209),
        (PredefinedOp::Replace, 0x243),
        (PredefinedOp::NoOp, 0x2e2),
    ] {
        let (operation, datatype) = (Op::Predefined(op), p.get(handle).unwrap());
        let error = kernel_for(&operation, datatype, true).unwrap_err();
        assert_eq!(error.class(), abi::MPI_ERR_OP);
        assert!(
            error.detail().contains(name(op)) && error.detail().contains("accumulates only"),
            "{error}"
        );
        assert!(accumulator_for(&operation, datatype, true).is_ok());
    }
}

#[test]
fn handles_and_names_agree() {
    assert_eq!(predefined(0x21), Some(PredefinedOp::Sum));
    assert_eq!((predefined(0x20), predefined(0x3e)), (None, None));
    assert!(
        OPS.iter().all(|&(handle, op, n)| predefined(handle as u64) == Some(op) && name(op) == n)
    );
    let user = Op::User { function: 1, commutative: false, large_count: false, state: 0 };
    assert!(!user.is_commutative() && Op::Predefined(PredefinedOp::Sum).is_commutative());
}

#[test]
fn derived_types_are_for_accumulate_only() {
    let p = Predefined::new();
    let vector = Datatype::vector(Form::Int, 3, 1, 2, p.get(0x209).unwrap()).unwrap();
    let sum = Op::Predefined(PredefinedOp::Sum);
    assert_eq!(kernel_for(&sum, &vector, true).unwrap_err().class(), abi::MPI_ERR_OP);
    assert_eq!(accumulator_for(&sum, &vector, true).unwrap().size(), 4);
}

#[test]
fn what_is_one_instruction_is_defined() {
    let types = crate::predefined::Predefined::new();
    for handle in 0..2048 {
        for (op, kind, name) in OPS {
            if instruction(op as u64, handle).is_some() {
                let datatype = types.get(handle).unwrap();
                assert!(
                    accumulator_for(&Op::Predefined(kind), datatype, true).is_ok(),
                    "{name} of {datatype}"
                );
            }
        }
    }
    assert_eq!(instruction(abi::MPI_SUM as u64, abi::MPI_LONG as u64), Some(Instruction::Add));
    assert_eq!(instruction(abi::MPI_SUM as u64, abi::MPI_DOUBLE as u64), None);
    assert_eq!(instruction(abi::MPI_MAX as u64, abi::MPI_LONG as u64), None);
}
