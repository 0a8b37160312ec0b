//! Writes the two entry points of a procedure, `mpi_x_` and `pmpi_x_`: they convert the arguments,
//! call the C function of the same name, and convert the results.

use std::collections::HashMap;
use std::fmt::Write;

use crate::{F08, descriptors};
use oxmpi_abi::fortran::{FortranArgument, FortranType, Procedure};
use oxmpi_abi::table::{FunctionArgument, FunctionForm, Intent, Length};

/// Procedures with bodies in `src/by_hand` besides the removed ones: callbacks, attributes, arrays
/// of strings, and lengths of strings that count differently.
const BY_HAND: &[&str] = &[
    "MPI_Attr_get",
    "MPI_Attr_put",
    "MPI_Buffer_detach",
    "MPI_Comm_create_errhandler",
    "MPI_Comm_create_keyval",
    "MPI_Comm_detach_buffer",
    "MPI_Comm_get_attr",
    "MPI_Comm_set_attr",
    "MPI_Comm_spawn",
    "MPI_Comm_spawn_multiple",
    "MPI_File_create_errhandler",
    "MPI_Grequest_start",
    "MPI_Info_create_env",
    "MPI_Info_get",
    "MPI_Info_get_string",
    "MPI_Init",
    "MPI_Init_thread",
    "MPI_Keyval_create",
    "MPI_Op_create",
    "MPI_Op_create_c",
    "MPI_Register_datarep",
    "MPI_Register_datarep_c",
    "MPI_Session_create_errhandler",
    "MPI_Session_detach_buffer",
    "MPI_Session_get_nth_pset",
    "MPI_Type_create_keyval",
    "MPI_Type_get_attr",
    "MPI_Type_set_attr",
    "MPI_Win_create_errhandler",
    "MPI_Win_create_keyval",
    "MPI_Win_get_attr",
    "MPI_Win_set_attr",
];

/// The name of the Rust type of a pointer to the C function.
pub(crate) fn callee_type(name: &str) -> String {
    oxmpi_abi::table::rust_base(name) + "Fn"
}

/// The names under which compilers call a procedure.
pub(crate) fn symbols(lower: &str) -> String {
    // Some compilers append two underscores to a name that contains one.
    let upper = lower.to_uppercase();
    format!("\"{lower}_\" \"{lower}\" \"{lower}__\" \"{upper}\"")
}

/// The text of one entry point; `prefix` is empty or `P`.
pub(crate) fn entry(procedure: &Procedure, prefix: &str) -> String {
    let is_by_hand = procedure.is_removed || BY_HAND.contains(&procedure.name);
    let body =
        if is_by_hand { by_hand(procedure, prefix) } else { EntryBody::of(procedure, prefix) };
    let lower = format!("{prefix}{}", procedure.name).to_lowercase();
    let ident = format!("{prefix}{}", procedure.name);
    defined(procedure, &ident, &lower, &body) + &with_pointer(procedure, &lower)
}

/// The text of the entry points of module `mpi_f08` for a procedure. Most of them are those of the
/// other interfaces under another name.
pub(crate) fn f08_entry(procedure: &Procedure, prefix: &str, f08: F08) -> String {
    let with_descriptors = match f08 {
        F08::Addresses => String::new(),
        _ => descriptors::entry(procedure, prefix, f08),
    };
    let symbol = f08_symbol(procedure, prefix, f08, "_f08");
    let is_large = procedure.function.is_some_and(|function| function.large);
    let returns_address =
        procedure.name.contains("etach_buffer") || procedure.name.starts_with("MPI_Buffer_detach");
    if !is_large && !returns_address {
        let lower = format!("{prefix}{}", procedure.name).to_lowercase();
        let same = format!("alias! {{ \"{lower}_\" {} }}\n", symbols(&symbol));
        return same + &with_descriptors;
    }
    let body = match BY_HAND.contains(&procedure.name) && !returns_address {
        true => by_hand(procedure, prefix),
        false => EntryBody::of(procedure, prefix),
    };
    let ident = format!("{prefix}{}_f08", procedure.name);
    defined(procedure, &ident, &symbol, &body) + &with_descriptors
}

/// The name of an entry point of module `mpi_f08`, without the last underscore.
pub(crate) fn f08_symbol(procedure: &Procedure, prefix: &str, f08: F08, end: &str) -> String {
    let name = procedure.name.to_lowercase();
    if f08 != F08::GnuDescriptors {
        return format!("{}{name}{end}", prefix.to_lowercase());
    }
    let name = if prefix == "P" { name.replacen("mpi_", "pmpir_", 1) } else { name };
    match name.strip_suffix("_c") {
        Some(plain) => format!("{plain}{end}_large"),
        None => format!("{name}{end}"),
    }
}

fn defined(procedure: &Procedure, ident: &str, symbol: &str, body: &str) -> String {
    let parameters = parameters(procedure, |argument| raw_type(argument.fortran_type));
    let result = match procedure.result {
        Some(FortranType::DoublePrecision) => "-> f64",
        Some(_) => "-> Aint",
        None => "",
    };
    let symbols = symbols(symbol);
    format!("entry! {{ {symbols} fn {ident}({parameters}) {result} {{ {body} }} }}\n")
}

/// The parameters of an entry point.
pub(crate) fn parameters(
    procedure: &Procedure,
    raw_type: impl Fn(&FortranArgument) -> &'static str,
) -> String {
    let of = |argument: &FortranArgument| format!("{}: {}", argument.name, raw_type(argument));
    let mut parameters: Vec<_> = procedure.arguments.iter().map(of).collect();
    if procedure.has_ierror {
        parameters.push("ierror: *mut c_int".to_owned());
    }
    parameters.extend(characters(procedure).map(|text| format!("{}_len: usize", text.name)));
    parameters.join(", ")
}

/// More names for procedures that take a TYPE(C_PTR) in place of an address.
fn with_pointer(procedure: &Procedure, lower: &str) -> String {
    if !procedure.arguments.iter().any(|argument| argument.name == "baseptr") {
        return String::new();
    }
    let same = format!("{lower}_cptr");
    format!("alias! {{ \"{lower}_\" {} }}\n", symbols(&same))
}

pub(crate) fn characters(procedure: &Procedure) -> impl Iterator<Item = &FortranArgument> {
    let is_text = |argument: &&FortranArgument| argument.fortran_type == FortranType::Character;
    procedure.arguments.iter().filter(is_text)
}

pub(crate) fn raw_type(fortran_type: FortranType) -> &'static str {
    match fortran_type {
        FortranType::Integer | FortranType::Logical => "*mut c_int",
        FortranType::Address => "*mut Aint",
        FortranType::Count => "*mut Count",
        FortranType::Offset => "*mut Offset",
        FortranType::DoublePrecision => "*mut f64",
        FortranType::Character => "*mut c_char",
        FortranType::Status => "*mut Status",
        FortranType::Choice => "*mut c_void",
        FortranType::External => "*const c_void",
    }
}

fn by_hand(procedure: &Procedure, prefix: &str) -> String {
    let mut given = vec![format!("c::{prefix}{}", procedure.callee)];
    given.extend(procedure.arguments.iter().map(|argument| argument.name.to_owned()));
    given.extend(characters(procedure).map(|argument| format!("{}_len", argument.name)));
    let name = procedure.name.trim_start_matches("MPI_").to_lowercase();
    format!("put(ierror, by_hand::{name}({}));", given.join(", "))
}

/// The parts of a body.
#[derive(Default)]
pub(crate) struct EntryBody {
    pub(crate) before: String,
    pub(crate) given: Vec<String>,
    pub(crate) after: String,
    /// Expressions for arguments of the C function that something else has converted.
    pub(crate) converted: HashMap<&'static str, String>,
}

impl EntryBody {
    pub(crate) fn of(procedure: &Procedure, prefix: &str) -> String {
        let mut body = EntryBody::default();
        body.add_all(procedure);
        let EntryBody { before, given, after, .. } = body;
        let call = format!("c::{prefix}{}({})", procedure.callee, given.join(", "));
        let is_completion = |argument: &&FunctionArgument| {
            argument.argument.kind.word == "request" && argument.argument.intent != Intent::Out
        };
        let mut arguments = procedure.arguments.iter().filter_map(|argument| argument.c);
        // The call may have completed a duplication.
        let settle = if arguments.any(|c| is_completion(&c)) { "settle(); " } else { "" };
        match procedure.has_ierror {
            true => format!("{before} let code = {call}; {after} {settle} put(ierror, code);"),
            false => {
                format!("{before} {call}{}", if procedure.result.is_some() { "" } else { ";" })
            }
        }
    }

    pub(crate) fn add_all(&mut self, procedure: &Procedure) {
        for argument in procedure.arguments.iter().filter_map(|argument| argument.c) {
            match self.converted.get(argument.name()) {
                Some(given) => self.given.push(given.clone()),
                None => self.add(procedure, argument),
            }
        }
    }

    fn add(&mut self, procedure: &Procedure, argument: &FunctionArgument) {
        let (name, facts) = (argument.name(), &argument.argument);
        let word = facts.kind.word;
        let has = |value: &str| facts.or.contains(&value);
        let given = match word {
            _ if facts.kind.is_handle() => self.handle(procedure, argument),
            "status" if facts.length.is_some() => format!("statuses_place({name})"),
            "status" => format!("status_place({name})"),
            "string" => self.text(argument),
            "pointer" => format!("{name}.cast()"),
            _ if has("MPI_BUFFER_AUTOMATIC") => format!("attached_address({name})"),
            _ if facts.kind.is_memory() => format!("choice_address({name})"),
            _ if has("MPI_UNWEIGHTED") => format!("weights_place({name})"),
            "index" if facts.intent == Intent::Out && counts_from_one(procedure) => {
                self.index(argument)
            }
            _ if argument.brackets == "[][3]" => format!("{name}.cast()"),
            _ if argument.by_value() => format!("*{name}"),
            "number" if name == "outcount" => {
                let _ = write!(self.before, "let mut outcount_c = UNSET_INDEX; ");
                "&mut outcount_c".to_owned()
            }
            _ => name.to_owned(),
        };
        self.given.push(given);
    }

    /// An index of a request, or an array of them: the first one is 1.
    fn index(&mut self, argument: &FunctionArgument) -> String {
        let name = argument.name();
        if argument.argument.length.is_some() {
            let _ = write!(self.after, "put_indices({name}, outcount_c, outcount); ");
            return name.to_owned();
        }
        let _ = write!(self.before, "let mut {name}_c = UNSET_INDEX; ");
        let _ = write!(self.after, "put_index({name}, {name}_c); ");
        format!("&mut {name}_c")
    }

    fn text(&mut self, argument: &FunctionArgument) -> String {
        let (name, facts) = (argument.name(), &argument.argument);
        match &facts.length {
            Some(Length::Constant(size)) => {
                let _ = write!(self.before, "let mut {name}_c = Room::new(abi::{size} as usize); ");
                let _ =
                    write!(self.after, "if code == 0 {{ {name}_c.give({name}, {name}_len); }} ");
                format!("{name}_c.as_mut_ptr()")
            }
            _ => {
                // Keys and values have no blanks in front either.
                let is_info = matches!(name, "key" | "value");
                let read = if is_info { "stripped" } else { "trimmed" };
                let _ = write!(self.before, "let {name}_c = {read}({name}, {name}_len); ");
                format!("{name}_c.as_ptr()")
            }
        }
    }

    fn handle(&mut self, procedure: &Procedure, argument: &FunctionArgument) -> String {
        let (name, facts) = (argument.name(), &argument.argument);
        let word = facts.kind.word;
        if let Some(length) = &facts.length {
            let length = self.length(procedure, argument, length);
            let from = if facts.intent == Intent::Out { "unset" } else { "read" };
            let is_read = facts.intent == Intent::In;
            let mutable = if is_read { "" } else { "mut " };
            let _ =
                write!(self.before, "let {mutable}{name}_c = {word}::{from}({name}, {length}); ");
            if is_read {
                if word == "request" {
                    let _ = write!(self.after, "request::look_at_all({name}, {length}); ");
                }
                return format!("{name}_c.as_ptr()");
            }
            if procedure.name == "MPI_Startall" {
                let _ = write!(self.before, "request::all_start({name}, {length}); ");
            }
            let _ = write!(self.after, "{word}::give({name}, &{name}_c); ");
            return format!("{name}_c.as_mut_ptr()");
        }
        if argument.by_value() {
            if word == "request" {
                let _ = write!(self.after, "request::look({name}); ");
            }
            return format!("{word}::input({name})");
        }
        if procedure.name.starts_with("MPI_Comm_idup") && name == "newcomm" {
            // The C library stores the communicator when the request completes.
            let _ = write!(self.before, "let newcomm_c = PENDING.cell(newcomm); ");
            let _ = write!(self.after, "if code != 0 {{ PENDING.remove(newcomm_c); }} settle(); ");
            return "newcomm_c".to_owned();
        }
        match facts.intent {
            Intent::Out => {
                let _ = write!(self.before, "let mut {name}_c = UNSET; ");
            }
            _ => {
                let _ = write!(self.before, "let mut {name}_c = {word}::input({name}); ");
            }
        }
        let store = match (facts.intent, procedure.name) {
            (Intent::InOut, _) if word == "request" => "update",
            _ => "output",
        };
        if procedure.name == "MPI_Request_free" {
            self.before += "if let Some(code) = request::refused_free(request) \
                            { put(ierror, code); return; } ";
        }
        if procedure.name == "MPI_Start" {
            let _ = write!(self.before, "request::starts({name}); ");
        }
        if facts.intent != Intent::In {
            let _ = write!(self.after, "{word}::{store}({name}, {name}_c); ");
        }
        format!("&mut {name}_c")
    }

    /// The number of entries of an array of handles.
    fn length(
        &self,
        procedure: &Procedure,
        argument: &FunctionArgument,
        length: &Length,
    ) -> String {
        let length = match length {
            Length::Argument(name) => return format!("*{name}"),
            Length::Ranks => "ranks_of(comm)",
            Length::Sources => "sources_of(comm)",
            Length::Destinations => "destinations_of(comm)",
            other => panic!("{}: {}: {other:?}", procedure.name, argument.name()),
        };
        // Data that stay in place have no types.
        let in_place = |argument: &FortranArgument| {
            argument.name == "sendbuf"
                && argument.c.is_some_and(|c| c.argument.or.contains(&"MPI_IN_PLACE"))
        };
        if argument.name() == "sendtypes" && procedure.arguments.iter().any(in_place) {
            let address = match self.converted.contains_key("sendbuf") {
                true => "(*sendbuf).address()",
                false => "sendbuf",
            };
            return format!("if is_in_place({address}) {{ 0 }} else {{ {length} }}");
        }
        length.to_owned()
    }
}

/// Whether indices of the procedure are those of an array of requests.
fn counts_from_one(procedure: &Procedure) -> bool {
    procedure.function.is_some_and(|function| {
        function.form == FunctionForm::Plain && function.argument("array_of_requests").is_some()
    })
}
