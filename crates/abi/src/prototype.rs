//! Parses a C prototype: its parameters, and their Rust types.
//!
//! This is no general C parser. It reads the table of [`crate::functions`], where a parameter is an
//! optional `const`, one type name, stars, a name and brackets.

use crate::callbacks::CALLBACKS;

/// A parameter of a prototype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param<'a> {
    /// Whether the type starts with `const`.
    pub constant: bool,
    pub base: &'a str,
    pub name: &'a str,
    pub stars: usize,
    /// The brackets after the name: empty, `[]` or `[][3]`.
    pub brackets: &'a str,
}

/// The parameters without a trailing `...`, whose arguments no function of the interface reads.
pub fn params(text: &str) -> impl Iterator<Item = Param<'_>> {
    text.split(',').map(str::trim).filter(|part| !matches!(*part, "void" | "...")).map(param)
}

fn param(text: &str) -> Param<'_> {
    let (constant, text) = match text.strip_prefix("const ") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (text, brackets) = text.split_at(text.find('[').unwrap_or(text.len()));
    let (base, declarator) = text.split_once(' ').unwrap_or((text, ""));
    let name = declarator.trim_start_matches('*');
    Param { constant, base, name, stars: declarator.len() - name.len(), brackets }
}

impl Param<'_> {
    /// The parameter as `mpi.h` declares it, with arrays as pointers (`int counts[]` as `int
    /// *counts`). GCC assumes that an array parameter has elements, and would warn of special
    /// addresses such as MPI_UNWEIGHTED.
    pub fn declaration(&self) -> String {
        let Param { base, name, stars, brackets, .. } = self;
        let constant = if self.constant { "const " } else { "" };
        match *brackets {
            "" => format!("{constant}{base} {}{name}", "*".repeat(*stars)),
            "[]" => format!("{constant}{base} *{}{name}", "*".repeat(*stars)),
            rows => format!("{constant}{base} (*{name}){}", rows.trim_start_matches("[]")),
        }
    }

    /// Whether the argument is a value and not an address.
    pub fn by_value(&self) -> bool {
        self.stars == 0 && self.brackets.is_empty()
    }

    /// The type in Rust, with the aliases of [`crate::types`] and `std::ffi`.
    pub fn rust_type(&self) -> String {
        let base = rust_base(self.base);
        if CALLBACKS.iter().any(|callback| callback.name == self.base) {
            return format!("Option<{base}>");
        }
        let star = if self.constant { "*const " } else { "*mut " };
        let stars = star.repeat(self.stars);
        match self.brackets {
            "" => stars + &base,
            "[]" => format!("{star}{stars}{base}"),
            rows => {
                format!(
                    "{star}{stars}[{base}; {}]",
                    rows.trim_start_matches("[][").trim_end_matches(']')
                )
            }
        }
    }
}

/// The Rust name of a C type name: `MPI_Comm_copy_attr_function` is `CommCopyAttrFunction`.
pub fn rust_base(c: &str) -> String {
    match c.strip_prefix("MPI_") {
        None if c == "double" => "f64".to_owned(),
        None => format!("c_{c}"),
        Some(name) => name
            .split('_')
            .map(|word| {
                let (first, rest) = word.split_at(usize::from(!word.is_empty()));
                first.to_uppercase() + rest
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FuncId;

    #[test]
    fn parameters_become_rust_types() {
        let types = |id: FuncId| -> Vec<String> {
            params(id.function().params).map(|param| param.rust_type()).collect()
        };
        assert_eq!(
            types(FuncId::MPI_Send),
            ["*const c_void", "c_int", "Datatype", "c_int", "c_int", "Comm"]
        );
        assert_eq!(types(FuncId::MPI_Init), ["*mut c_int", "*mut *mut *mut c_char"]);
        assert_eq!(
            types(FuncId::MPI_Group_range_incl),
            ["Group", "c_int", "*mut [c_int; 3]", "*mut Group"]
        );
        assert_eq!(types(FuncId::MPI_Op_create_c), ["Option<UserFunctionC>", "c_int", "*mut Op"]);
        assert_eq!(types(FuncId::MPI_Pcontrol), ["c_int"]);
        assert!(types(FuncId::MPI_Wtime).is_empty());
        assert_eq!(types(FuncId::MPI_Comm_spawn)[1], "*mut *mut c_char");
    }

    #[test]
    fn the_header_declares_pointers() {
        let declared = |id: FuncId| -> Vec<String> {
            params(id.function().params).map(|param| param.declaration()).collect()
        };
        assert_eq!(declared(FuncId::MPI_Init), ["int *argc", "char ***argv"]);
        assert_eq!(declared(FuncId::MPI_Group_range_incl)[2], "int (*ranges)[3]");
        assert_eq!(declared(FuncId::MPI_Comm_spawn)[1], "char **argv");
        assert_eq!(
            declared(FuncId::MPI_Cart_create)[1..4],
            ["int ndims", "const int *dims", "const int *periods"]
        );
    }

    #[test]
    fn every_parameter_has_a_type_and_a_name() {
        for id in FuncId::all() {
            for param in params(id.function().params) {
                assert!(!param.base.is_empty() && !param.name.is_empty(), "{id}: {param:?}");
                assert!(matches!(param.brackets, "" | "[]" | "[][3]"), "{id}: {param:?}");
            }
        }
    }
}
