//! The text of one function of a face.

use std::fmt::Write;

use oxmpi_abi::foreign::ForeignConstant;
use oxmpi_abi::table::{Function, FunctionArgument, Intent, Length, Place, rust_base};

use crate::constants::{BITS, CHOICES};
use crate::{Face, HandleKind};

pub(crate) fn text(function: &Function, face: &Face, all: &[ForeignConstant]) -> String {
    let parameters: Vec<_> = function
        .arguments
        .iter()
        .map(|argument| format!("{}: {}", argument.name(), parameter(argument, face.handles)))
        .collect();
    let name = &function.name;
    let is_int = ["_toint", "_fromint"].iter().any(|end| name.ends_with(end));
    let is_int = is_int && !name.starts_with("MPI_File_");
    let result = match is_int {
        true => "c_int".to_owned(),
        false => rust_base(function.result),
    };
    let body = if is_int {
        // The integer of a handle is the handle.
        function.arguments.first().map_or("", FunctionArgument::name).to_owned()
    } else if face.is_by_hand(name) {
        let has_pointers = face.handles == HandleKind::Standard;
        let given = function.arguments.iter().map(|argument| match argument.argument.kind.word {
            "callback" if has_pointers => format!("address({})", argument.name()),
            _ => argument.name().to_owned(),
        });
        format!("by_hand::{name}({})", given.collect::<Vec<_>>().join(", "))
    } else {
        let mut body = Body { all, ..Body::default() };
        body.of(function)
    };
    let other = (face.other_name)(function).map_or(String::new(), |other| {
        format!("aliases! {{ \"{other}\" => \"P{name}\"; \"P{other}\" => \"P{name}\"; }}\n")
    });
    let parameters = parameters.join(", ");
    format!("face! {{ fn {name}({parameters}) -> {result} {{ {body} }} }}\n{other}")
}

/// The Rust type of a parameter in the other ABI.
fn parameter(argument: &FunctionArgument, handles: HandleKind) -> String {
    let word = argument.argument.kind.word;
    let of_type = argument.rust_type();
    if handles == HandleKind::Standard {
        // The module of the functions has the other ABI's status under the name of the standard's.
        return of_type;
    }
    if word == "callback" && !argument.base.starts_with("MPI_T_") {
        return "*const c_void".into();
    }
    if word == "status" {
        return of_type.replace("Status", "ForeignStatus");
    }
    if is_converted_handle(argument) {
        return of_type.replace(&rust_base(argument.base), &format!("{word}::Foreign"));
    }
    of_type
}

/// The handles of the tool interface are pointers in all ABIs.
fn is_converted_handle(argument: &FunctionArgument) -> bool {
    let kind = argument.argument.kind;
    kind.is_handle() && !kind.word.starts_with("t_")
}

#[derive(Default)]
struct Body<'a> {
    all: &'a [ForeignConstant],
    before: String,
    given: Vec<String>,
    after: String,
}

impl Body<'_> {
    fn of(&mut self, function: &Function) -> String {
        for argument in &function.arguments {
            let given = self.argument(function, argument);
            self.given.push(given);
        }
        let call = format!("core!({})({})", function.name, self.given.join(", "));
        // The call may have completed a duplication.
        let is_completion = |argument: &FunctionArgument| {
            argument.argument.kind.word == "request" && argument.argument.intent != Intent::Out
        };
        if function.arguments.iter().any(is_completion) {
            self.after += "settle(); ";
        }
        let Body { before, after, .. } = self;
        match function.returns_code() {
            true => format!("{before} let code = {call}; {after} code_out(code)"),
            false => format!("{before} let result = {call}; {after} result"),
        }
    }

    fn argument(&mut self, function: &Function, argument: &FunctionArgument) -> String {
        let (name, facts) = (argument.name(), &argument.argument);
        let word = facts.kind.word;
        let has = |value: &str| facts.or.contains(&value);
        let is_list = facts.length.is_some();
        match word {
            _ if is_converted_handle(argument) => self.handle(function, argument),
            "status" => self.status(argument),
            "string" if facts.intent == Intent::Out => self.text(function, argument),
            // The library refuses special addresses where they must not stand.
            "buffer" | "blocks" | "memory" | "element" => {
                let cast = if argument.constant { "" } else { ".cast_mut()" };
                format!("address_in({name}.cast()){cast}.cast()")
            }
            _ if has("MPI_UNWEIGHTED") => match facts.intent {
                Intent::In => format!("weights_in({name}.cast()).cast()"),
                _ => format!("weights_in({name}.cast_const().cast()).cast_mut().cast()"),
            },
            // Every value of a status is allowed.
            "integer" if function.name == "MPI_Status_set_source" => format!("rank_in({name})"),
            "integer" if function.name == "MPI_Status_set_tag" => format!("tag_in({name})"),
            "integer" if function.name == "MPI_Status_set_error" => format!("code_in({name})"),
            "integer" if has("MPI_DISTRIBUTE_DFLT_DARG") => {
                let _ = write!(self.before, "let {name}_c = numbers({name}, ndims, darg_in); ");
                format!("list_place({name}, &{name}_c)")
            }
            "pointer" if name == "buffer_addr" => {
                let _ = write!(self.after, "if code == 0 {{ detached_out({name}.cast()); }} ");
                name.to_owned()
            }
            "rank" | "root" if argument.by_value() => format!("rank_in({name})"),
            "tag" if argument.by_value() => format!("tag_in({name})"),
            "keyval" | "code" if argument.by_value() => format!("{word}_in({name})"),
            "rank" | "root" if !is_list => self.number("rank", argument),
            "rank" if is_list => self.ranks(function, argument),
            "tag" | "keyval" | "code" if !is_list => self.number(word, argument),
            "code" => self.codes(argument),
            "one" | "mask" | "t_order" | "t_safety" => self.choice(argument),
            "t_pvar" if argument.by_value() => format!("pvar_in({name})"),
            "offset" if has("MPI_DISPLACEMENT_CURRENT") => format!("displacement_in({name})"),
            _ => name.to_owned(),
        }
    }

    /// A number that the call stores or changes.
    fn number(&mut self, set: &str, argument: &FunctionArgument) -> String {
        let name = argument.name();
        let start = match argument.argument.intent {
            Intent::Out => "NOT_STORED".to_owned(),
            _ => format!("number_at({name}, {set}_in)"),
        };
        let _ = write!(self.before, "let mut {name}_c = {start}; ");
        let _ = write!(self.after, "number_out({name}, {name}_c, {set}_out); ");
        format!("number_place({name}, &mut {name}_c)")
    }

    fn ranks(&mut self, function: &Function, argument: &FunctionArgument) -> String {
        let (name, facts) = (argument.name(), &argument.argument);
        let own_length = |of: &str| match function.argument(of)?.argument.length {
            Some(Length::Argument(length)) => Some(length),
            _ => None,
        };
        let length = match &facts.length {
            Some(Length::Argument(length)) => (*length).to_owned(),
            Some(Length::Sum(of)) => {
                let length = own_length(of).unwrap_or_else(|| panic!("{name}: {of}"));
                format!("sum({of}, {length})")
            }
            other => panic!("{}: {name}: {other:?}", function.name),
        };
        if facts.intent == Intent::In {
            let _ = write!(self.before, "let {name}_c = numbers({name}, {length}, rank_in); ");
            return format!("list_place({name}, &{name}_c)");
        }
        if facts.or.contains(&"MPI_PROC_NULL") {
            let convert = format!("numbers_out({name}, {length}, rank_out)");
            let _ = write!(self.after, "if code == 0 {{ {convert}; }} ");
        }
        name.to_owned()
    }

    /// Error codes that the call stores, if the caller wants them. Only the root knows their number
    /// before.
    fn codes(&mut self, argument: &FunctionArgument) -> String {
        let name = argument.name();
        let _ = write!(self.after, "codes_out({name}); ");
        name.to_owned()
    }

    fn choice(&mut self, argument: &FunctionArgument) -> String {
        let name = argument.name();
        let set = match name {
            "status" => "topology",
            "cb_safety" => "safety",
            other => other,
        };
        let is_known = CHOICES.iter().chain(&BITS).any(|(known, _)| *known == set);
        if !is_known {
            return name.to_owned();
        }
        if argument.by_value() {
            return format!("{set}_in({name})");
        }
        if let Some(length) = &argument.argument.length {
            let Length::Argument(length) = length else { panic!("{name}: {length:?}") };
            let _ = write!(self.before, "let {name}_c = numbers({name}, {length}, {set}_in); ");
            return format!("list_place({name}, &{name}_c)");
        }
        self.number(set, argument)
    }

    /// A text whose room is a constant of the other ABI.
    fn text(&mut self, function: &Function, argument: &FunctionArgument) -> String {
        let name = argument.name();
        let Some(Length::Constant(size)) = argument.argument.length else {
            return name.to_owned();
        };
        let foreign = self.all.iter().find(|constant| constant.name == size);
        if foreign.is_some_and(|size| size.foreign >= size.value) {
            return name.to_owned();
        }
        let _ = write!(self.before, "let mut {name}_c = Room::new(abi::{size} as usize); ");
        let _ = write!(self.after, "if code == 0 {{ {name}_c.give_closed({name}, {size}); }} ");
        if function.argument("resultlen").is_some() {
            let _ = write!(self.after, "if code == 0 {{ at_most(resultlen, {size} - 1); }} ");
        }
        format!("room_place({name}.is_null(), &mut {name}_c)")
    }

    fn status(&mut self, argument: &FunctionArgument) -> String {
        let (name, facts) = (argument.name(), &argument.argument);
        if let Some(Length::Argument(length)) = &facts.length {
            let _ = write!(self.before, "let mut {name}_c = Statuses::new({name}, {length}); ");
            let _ = write!(self.after, "{name}_c.give({name}); ");
            return format!("{name}_c.place()");
        }
        match facts.intent {
            Intent::In => {
                let _ = write!(self.before, "let mut {name}_c = status_in({name}); ");
                format!("status_place({name}, &mut {name}_c).cast_const()")
            }
            Intent::InOut => {
                let _ = write!(self.before, "let mut {name}_c = status_in({name}); ");
                let _ = write!(self.after, "if code == 0 {{ status_out({name}, &{name}_c); }} ");
                format!("status_place({name}, &mut {name}_c)")
            }
            Intent::Out => {
                let _ = write!(self.before, "let mut {name}_c = UNWRITTEN; ");
                let _ = write!(self.after, "status_out({name}, &{name}_c); ");
                format!("status_place({name}, &mut {name}_c)")
            }
        }
    }

    fn handle(&mut self, function: &Function, argument: &FunctionArgument) -> String {
        let (name, facts) = (argument.name(), &argument.argument);
        let word = facts.kind.word;
        if let Some(length) = &facts.length {
            let length = match length {
                // The tool interface has lengths that the call reads and changes.
                Length::Argument(length)
                    if function.argument(length).is_some_and(|number| !number.by_value()) =>
                {
                    format!("length_at({length})")
                }
                Length::Argument(length) => (*length).to_owned(),
                Length::Ranks => "ranks_of(comm)".to_owned(),
                Length::Sources => "sources_of(comm)".to_owned(),
                Length::Destinations => "destinations_of(comm)".to_owned(),
                other => panic!("{}: {name}: {other:?}", function.name),
            };
            let length = match facts.at {
                Place::Root => format!("if is_root(comm, root) {{ {length} }} else {{ 0 }}"),
                _ => length,
            };
            // Data that stay in place have no types.
            let length = match name {
                "sendtypes"
                    if function.name.contains("lltoallw")
                        && function
                            .argument("sendbuf")
                            .is_some_and(|buffer| buffer.argument.or.contains(&"MPI_IN_PLACE")) =>
                {
                    format!("if is_in_place(sendbuf) {{ 0 }} else {{ {length} }}")
                }
                _ => length,
            };
            if facts.intent == Intent::In {
                let _ = write!(self.before, "let mut {name}_c = {word}::read({name}, {length}); ");
                return format!("array_place({name}.is_null(), &mut {name}_c).cast_const()");
            }
            let from = if facts.intent == Intent::Out { "unset" } else { "read" };
            let _ = write!(self.before, "let mut {name}_c = {word}::{from}({name}, {length}); ");
            let _ = write!(self.after, "{word}::give({name}, &{name}_c); ");
            return format!("array_place({name}.is_null(), &mut {name}_c)");
        }
        if argument.by_value() {
            return format!("{word}::input({name})");
        }
        if word == "comm" && facts.intent == Intent::Out && function.argument("request").is_some() {
            // The library stores the communicator when the request completes.
            let _ = write!(self.before, "let {name}_c = PENDING.cell({name}); ");
            let _ = write!(self.after, "if code != 0 {{ PENDING.remove({name}_c); }} settle(); ");
            return format!("handle_place({name}.is_null(), {name}_c)");
        }
        let from = if facts.intent == Intent::Out {
            "UNSET".to_owned()
        } else {
            format!("{word}::at({name})")
        };
        let _ = write!(self.before, "let mut {name}_c = {from}; ");
        let _ = write!(self.after, "{word}::output({name}, {name}_c); ");
        format!("handle_place({name}.is_null(), &mut {name}_c)")
    }
}
