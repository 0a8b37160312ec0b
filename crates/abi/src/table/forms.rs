//! The functions of an entry: its plain form, and the forms that follow from it.

use super::{Argument, FunctionEntry, Intent, Kind, Length, Place};

/// A form of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionForm {
    /// As the entry says.
    Plain,
    /// Starts the operation, and returns a request.
    Nonblocking,
    /// Makes a persistent request.
    Persistent,
    /// A one-sided operation with a request.
    Request,
}

/// A function of the C interface.
#[derive(Debug)]
pub struct Function {
    /// The entry that has the function.
    pub entry: &'static FunctionEntry,
    /// The C name `MPI_X`; the function is also exported as `PMPI_X`.
    pub name: String,
    /// The form.
    pub form: FunctionForm,
    /// Whether counts are large: `MPI_X_c`.
    pub large: bool,
    /// The C type of the result.
    pub result: &'static str,
    /// The arguments, in the order of the C declaration.
    pub arguments: Vec<FunctionArgument>,
}

/// An argument of a function.
#[derive(Clone, Debug)]
pub struct FunctionArgument {
    /// The facts of the table.
    pub argument: Argument,
    /// The C type of one value, which depends on the form.
    pub base: &'static str,
    /// Stars before the name.
    pub stars: usize,
    /// The brackets after the name: empty, `[]` or `[][3]`.
    pub brackets: &'static str,
    /// Whether the type starts with `const`.
    pub constant: bool,
}

impl FunctionEntry {
    /// All functions of the entry.
    pub fn functions(&'static self) -> Vec<Function> {
        let mut functions = Vec::new();
        for form in [
            FunctionForm::Plain,
            FunctionForm::Nonblocking,
            FunctionForm::Persistent,
            FunctionForm::Request,
        ] {
            if !self.has(form) {
                continue;
            }
            functions.push(self.function(form, false));
            // A flush has no count.
            if self.forms.contains(&"large") {
                functions.push(self.function(form, true));
            }
        }
        functions
    }

    fn has(&self, form: FunctionForm) -> bool {
        match form {
            FunctionForm::Plain => true,
            FunctionForm::Nonblocking => self.forms.contains(&"nonblocking"),
            FunctionForm::Persistent => self.forms.contains(&"persistent"),
            FunctionForm::Request => self.forms.contains(&"request"),
        }
    }

    fn function(&'static self, form: FunctionForm, large: bool) -> Function {
        let mut name = name_of(self.name, form);
        if large {
            name += "_c";
        }
        let mut arguments: Vec<_> = self.arguments.clone();
        if form != FunctionForm::Plain {
            arguments.retain(|argument| argument.kind.word != "status");
            if form == FunctionForm::Persistent && self.is.contains(&"collective") {
                arguments.push(added("info", Intent::In));
            }
            arguments.push(added("request", Intent::Out));
        }
        let arguments =
            arguments.into_iter().map(|argument| FunctionArgument::new(argument, large)).collect();
        Function { entry: self, name, form, large, result: self.result, arguments }
    }
}

/// An argument that the form adds to those of the plain form.
fn added(word: &'static str, intent: Intent) -> Argument {
    // The table of kinds has both words.
    let kind = Kind::find(word).unwrap_or(&super::KINDS[0]);
    let (or, about) = match word {
        "info" => (vec!["MPI_INFO_NULL"], None),
        _ => (Vec::new(), Some("Request for the operation".to_owned())),
    };
    Argument {
        intent,
        name: word,
        kind,
        of: Vec::new(),
        length: None,
        or,
        class: kind.class,
        at: Place::Everywhere,
        declaration: None,
        about,
    }
}

fn name_of(plain: &str, form: FunctionForm) -> String {
    match form {
        FunctionForm::Plain => plain.to_owned(),
        FunctionForm::Persistent => format!("{plain}_init"),
        FunctionForm::Request => before_verb(plain, 'R'),
        FunctionForm::Nonblocking => before_verb(plain, 'I'),
    }
}

/// `MPI_Send` becomes `MPI_Isend`, `MPI_File_read` becomes `MPI_File_iread`.
fn before_verb(plain: &str, letter: char) -> String {
    for object in ["MPI_File_", "MPI_Comm_", "MPI_Buffer_", "MPI_Session_", "MPIX_Comm_"] {
        if let Some(verb) = plain.strip_prefix(object) {
            return format!("{object}{}{verb}", letter.to_ascii_lowercase());
        }
    }
    let verb = plain.strip_prefix("MPI_").unwrap_or(plain);
    let (first, rest) = verb.split_at(verb.len().min(1));
    format!("MPI_{letter}{}{rest}", first.to_ascii_lowercase())
}

impl FunctionArgument {
    fn new(argument: Argument, large: bool) -> FunctionArgument {
        if let Some(declaration) = argument.declaration {
            return FunctionArgument::declared(argument, declaration);
        }
        let (word, intent) = (argument.kind.word, argument.intent);
        let mut base = if large { argument.kind.large } else { argument.kind.plain };
        let input = intent == Intent::In;
        let is_array = argument.length.is_some();
        let (stars, brackets, constant) = match word {
            "callback" => {
                // The type of the large form follows that of the plain form.
                let of = &argument.of;
                base = if large { of.last() } else { of.first() }.copied().unwrap_or("");
                (usize::from(!base.starts_with("MPI_T_")), "", false)
            }
            "state" | "attribute" | "pointer" => (1, "", false),
            "strings" => (1, "[]", false),
            "string" | "buffer" | "blocks" | "memory" | "element" | "place" => (1, "", input),
            _ if is_array => (0, "[]", input),
            "status" => (1, "", input),
            _ => (usize::from(!input), "", false),
        };
        FunctionArgument { argument, base, stars, brackets, constant }
    }

    /// Reads a C declaration: an optional `const`, one type name, stars, a name and brackets.
    fn declared(argument: Argument, text: &'static str) -> FunctionArgument {
        let (constant, text) = match text.strip_prefix("const ") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (text, brackets) = text.split_at(text.find('[').unwrap_or(text.len()));
        let (base, declarator) = text.split_once(' ').unwrap_or((text, ""));
        let stars = declarator.len() - declarator.trim_start_matches('*').len();
        FunctionArgument { argument, base, stars, brackets, constant }
    }

    /// Whether the argument is a value and not an address.
    pub fn by_value(&self) -> bool {
        self.stars == 0 && self.brackets.is_empty()
    }

    /// The name in the standard.
    pub fn name(&self) -> &'static str {
        self.argument.name
    }

    /// The parameter as `mpi.h` declares it, with arrays as pointers (`int counts[]` as `int
    /// *counts`). GCC assumes that an array parameter has elements, and would warn of special
    /// addresses such as MPI_UNWEIGHTED.
    pub fn pointer_declaration(&self) -> String {
        let FunctionArgument { base, stars, brackets, .. } = self;
        let (constant, name) = (if self.constant { "const " } else { "" }, self.name());
        match *brackets {
            "" => format!("{constant}{base} {}{name}", "*".repeat(*stars)),
            "[]" => format!("{constant}{base} *{}{name}", "*".repeat(*stars)),
            rows => format!("{constant}{base} (*{name}){}", rows.trim_start_matches("[]")),
        }
    }

    /// The type in Rust, with the aliases of [`crate::types`] and `std::ffi`.
    pub fn rust_type(&self) -> String {
        let base = rust_base(self.base);
        if self.argument.kind.word == "callback" {
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

    /// The declaration as the standard prints it.
    pub fn declaration(&self) -> String {
        let FunctionArgument { argument, base, stars, brackets, constant } = self;
        let constant = if *constant { "const " } else { "" };
        format!("{constant}{base} {}{}{brackets}", "*".repeat(*stars), argument.name)
    }
}

impl Function {
    /// Whether a call may have more arguments, which no function of the interface reads.
    pub fn is_variadic(&self) -> bool {
        self.entry.is.contains(&"variadic")
    }

    /// Whether the result is an error code.
    pub fn returns_code(&self) -> bool {
        !self.entry.is_value
    }

    /// Whether the function is beyond the standard.
    pub fn is_extension(&self) -> bool {
        self.name.starts_with("MPIX_")
    }

    /// The prototype as the standard prints it, without a semicolon.
    pub fn prototype(&self) -> String {
        format!("{} {}({})", self.result, self.name, self.list(FunctionArgument::declaration))
    }

    /// The text of each argument, separated by commas; `void` without an argument.
    pub fn list(&self, text: impl Fn(&FunctionArgument) -> String) -> String {
        let mut all: Vec<_> = self.arguments.iter().map(text).collect();
        if self.is_variadic() {
            all.push("...".to_owned());
        }
        if all.is_empty() { "void".to_owned() } else { all.join(", ") }
    }

    /// The argument of this name.
    pub fn argument(&self, name: &str) -> Option<&FunctionArgument> {
        self.arguments.iter().find(|given| given.argument.name == name)
    }
}

impl Length {
    /// The argument that the length depends on.
    pub fn argument(&self) -> Option<&'static str> {
        match self {
            Length::Argument(name) | Length::Sum(name) | Length::Last(name) => Some(name),
            _ => None,
        }
    }
}

/// The Rust name of a C type name: `MPI_Comm_copy_attr_function` is `CommCopyAttrFunction`.
pub fn rust_base(c: &str) -> String {
    match c.strip_prefix("MPI_").or_else(|| c.strip_prefix("MPIX_")) {
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
    use crate::FuncId;

    #[test]
    fn arguments_become_rust_types() {
        let types = |id: FuncId| -> Vec<String> {
            id.function().arguments.iter().map(|argument| argument.rust_type()).collect()
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
            let arguments = &id.function().arguments;
            arguments.iter().map(|argument| argument.pointer_declaration()).collect()
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
    fn every_argument_has_a_type_and_a_name() {
        for id in FuncId::all() {
            for argument in &id.function().arguments {
                assert!(!argument.base.is_empty() && !argument.name().is_empty(), "{id}");
                assert!(matches!(argument.brackets, "" | "[]" | "[][3]"), "{id}: {argument:?}");
            }
        }
    }
}
