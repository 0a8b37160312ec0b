//! Writes the C face: for each function of the table, the `extern "C"` function that checks the
//! arguments, looks up the objects, calls the body, and stores the results.

use std::fmt::Write;

use oxmpi_abi::table::{Form, Function, FunctionArgument, Intent, Length};

use crate::bodies::{Body, Takes, body, has_call_form};

/// The text of one face.
pub(crate) fn face(function: &'static Function) -> String {
    let body = body(function);
    let parameters: Vec<_> = function
        .arguments
        .iter()
        .map(|argument| format!("{}: {}", argument.name(), argument.rust_type()))
        .collect();
    let name = &function.name;
    let code = match body.takes {
        Takes::Raw => raw(function, body),
        Takes::Resolved => resolved(function, body),
    };
    let (macro_name, result) = match function.is_extension() {
        true => ("mpix", "c_int".to_owned()),
        false => ("mpi", oxmpi_abi::table::rust_base(function.result)),
    };
    format!(
        "{macro_name}! {{ fn {name}({}) -> {result} {{ {code} }} }}\n",
        parameters.join(", ")
    )
}

/// The call of a body that takes raw arguments.
fn raw(function: &'static Function, body: Body) -> String {
    let mut given = vec![format!("FuncId::{}", function.name)];
    if !body.first.is_empty() {
        given.push(body.first.to_owned());
    }
    given.extend(packed(function));
    // SAFETY of the call: the contract of the C interface.
    format!("unsafe {{ {}({}) }}", body.name(function), given.join(", "))
}

fn packed(function: &'static Function) -> Vec<String> {
    let (mut given, mut taken) = (Vec::new(), Vec::new());
    if has_call_form(function) {
        taken.extend(["info", "request"]);
    }
    for argument in &function.arguments {
        if taken.contains(&argument.name()) {
            continue;
        }
        given.push(pack(function, argument, &mut taken));
    }
    if has_call_form(function) {
        given.push(
            match function.form {
                Form::Plain => "CallForm::Blocking",
                Form::Persistent => "CallForm::Persistent(info, request)",
                Form::Nonblocking | Form::Request => "CallForm::Nonblocking(request)",
            }
            .to_owned(),
        );
    }
    given
}

/// The value of an argument, with the arguments that belong to it. Their names are added to
/// `taken`.
fn pack(
    function: &'static Function,
    argument: &FunctionArgument,
    taken: &mut Vec<&'static str>,
) -> String {
    let (name, of) = (argument.name(), argument.argument.of.clone());
    match argument.argument.kind.word {
        "buffer" if name == "sendbuf" && function.argument("op").is_some() => {
            reduction(function, taken)
        }
        "buffer" => {
            taken.extend(of.clone());
            format!(
                "BufferArgs {{ address: {name}.cast(), count: i64::from({0}), datatype: {1}, \
                 names: &BufferNames {{ address: {name:?}, count: {0:?}, datatype: {1:?} }} }}",
                of[0], of[1]
            )
        }
        "blocks" => {
            taken.extend(of.clone());
            let side = if argument.argument.intent == Intent::In { "Send" } else { "Receive" };
            let is_one = function.argument(of[2]).is_some_and(FunctionArgument::by_value);
            format!(
                "BlockArgs {{ side: BufferSide::{side}, address: {name}.cast(), counts: {}, \
                 displacements: {}, types: BlockTypes::{}({}) }}",
                number_array(function, of[0]),
                number_array(function, of[1]),
                if is_one { "One" } else { "Each" },
                of[2]
            )
        }
        "rank" if name == "target_rank" && function.argument("target_count").is_some() => {
            taken.extend(["target_disp", "target_count", "target_datatype"]);
            "TargetArgs { rank: target_rank, disp: target_disp, \
             count: i64::from(target_count), datatype: target_datatype }"
                .to_owned()
        }
        "count" | "bytes" | "elements" | "large" if argument.by_value() => {
            format!("i64::from({name})")
        }
        "extent" | "displacement" if argument.by_value() => format!("{name} as isize"),
        "count" | "displacement" if argument.constant => number_array(function, name),
        _ => name.to_owned(),
    }
}

/// An array of numbers of the plain or the large form.
fn number_array(function: &'static Function, name: &str) -> String {
    let base = function.argument(name).map_or("", |argument| argument.base);
    let variant = if base == "int" { "Int" } else { base.trim_start_matches("MPI_") };
    format!("NumberArray::{variant}({name})")
}

fn reduction(function: &'static Function, taken: &mut Vec<&'static str>) -> String {
    // MPI_Reduce_scatter has a count for each rank.
    let count =
        ["count", "recvcount"].into_iter().find(|name| function.argument(name).is_some());
    taken.extend(["recvbuf", "datatype", "op"]);
    taken.extend(count);
    format!(
        "ReductionArgs {{ send: sendbuf, receive: recvbuf, count: {}, datatype, op }}",
        count.map_or("0".to_owned(), |count| format!("i64::from({count})"))
    )
}

/// The parts of a face that calls a body with resolved arguments.
struct Resolved {
    function: &'static Function,
    /// Statements before the call.
    before: String,
    given: Vec<String>,
    /// The places of the results, in order.
    results: Vec<Stored>,
    taken: Vec<&'static str>,
}

/// A result of the body, and how the face stores it.
struct Stored {
    name: &'static str,
    /// The statement, in which `value` is the result.
    statement: String,
    /// Whether the place is checked before the call.
    is_checked: bool,
}

/// The call of a body with resolved arguments.
fn resolved(function: &'static Function, body: Body) -> String {
    let mut parts = Resolved {
        function,
        before: String::new(),
        given: Vec::new(),
        results: Vec::new(),
        taken: Vec::new(),
    };
    let object = parts.object();
    // A slice has its length.
    let lengths = function.arguments.iter().filter_map(|argument| {
        let facts = &argument.argument;
        match &facts.length {
            Some(Length::Argument(of)) if facts.intent != Intent::InOut => Some(*of),
            _ => None,
        }
    });
    parts.taken.extend(lengths);
    let is_early = function.entry.is.contains(&"early");
    if !body.first.is_empty() {
        parts.given.insert(0, body.first.to_owned());
    }
    if !is_early {
        parts.given.insert(usize::from(!body.first.is_empty()), "library".to_owned());
    }
    for argument in &function.arguments {
        parts.add(argument, object.map(|(name, _)| name));
    }
    let call = format!("{}({})", body.name(function), parts.given.join(", "));
    if function.result != "int" || function.name.ends_with("_toint") {
        return call;
    }
    let text = parts.text(&call);
    let id = format!("FuncId::{}", function.name);
    match object {
        Some((name, kind)) if parts.taken.contains(&name) => {
            // The handle at the address, which the call changes.
            format!(
                "let handle = match unsafe {{ fetch({name}, {name:?}) }} {{ \
                     Ok(handle) => handle, \
                     Err(error) => return outcome({id}, None, Err(error)), \
                 }}; \
                 let result = library().and_then(|library| {{ {text} }}); \
                 outcome({id}, Some(On::{kind}(handle)), result)"
            )
        }
        Some((name, kind)) => {
            let on = kind.to_lowercase();
            format!("on_{on}({id}, {name}, |library, {name}| {{ {text} }})")
        }
        None if is_early => format!("outcome({id}, None, (|| {{ {text} }})())"),
        None => format!("on_none({id}, |library| {{ {text} }})"),
    }
}

impl Resolved {
    /// The argument whose error handler gets the errors: its name, and the kind of object.
    fn object(&mut self) -> Option<(&'static str, &'static str)> {
        let arguments = &self.function.arguments;
        let kind_of = |argument: &FunctionArgument| match argument.argument.kind.word {
            "comm" => Some("Comm"),
            "win" => Some("Win"),
            "file" => Some("File"),
            "session" => Some("Session"),
            _ => None,
        };
        if let Some((argument, kind)) = arguments
            .iter()
            .filter(|argument| argument.by_value())
            .find_map(|argument| Some((argument, kind_of(argument)?)))
        {
            return Some((argument.name(), kind));
        }
        let is_changed = |argument: &&FunctionArgument| {
            argument.argument.intent == Intent::InOut && argument.stars == 1
        };
        let (argument, kind) = arguments
            .iter()
            .filter(is_changed)
            .find_map(|argument| Some((argument, kind_of(argument)?)))?;
        self.taken.push(argument.name());
        self.given.push("handle".to_owned());
        self.store(argument, "value");
        Some((argument.name(), kind))
    }

    fn add(&mut self, argument: &FunctionArgument, object: Option<&str>) {
        let name = argument.name();
        if self.taken.contains(&name) {
            return;
        }
        if object == Some(name) {
            return self.given.push(name.to_owned());
        }
        let facts = &argument.argument;
        match facts.intent {
            Intent::In => self.input(argument),
            Intent::Out | Intent::InOut if facts.kind.word == "buffer" => {
                let text = pack(self.function, argument, &mut self.taken);
                self.given.push(text);
            }
            Intent::Out => self.output(argument),
            Intent::InOut => match facts.kind.word {
                word if facts.kind.is_memory() || facts.length.is_some() || word == "status" => {
                    self.given.push(name.to_owned());
                }
                _ => {
                    self.given.push(format!("unsafe {{ fetch({name}, {name:?}) }}?"));
                    self.store(argument, "value");
                }
            },
        }
    }

    /// An error of another argument than the object must not keep the process out of a collective
    /// call, so the body gets it in place of the value.
    fn fallible(&self, text: &str) -> String {
        match self.function.entry.is.contains(&"collective") {
            true => text.to_owned(),
            false => format!("{text}?"),
        }
    }

    fn input(&mut self, argument: &FunctionArgument) {
        let (name, facts) = (argument.name(), &argument.argument);
        if ["buffer", "blocks"].contains(&facts.kind.word) || name == "target_rank" {
            let text = pack(self.function, argument, &mut self.taken);
            return self.given.push(text);
        }
        let is_everywhere = facts.at == oxmpi_abi::table::Place::Everywhere;
        let text = match (facts.kind.word, &facts.length) {
            _ if !is_everywhere => name.to_owned(),
            ("string", _) => self.fallible(&format!("unsafe {{ text({name}, {name:?}) }}")),
            ("group", None) => self.fallible(&format!("library.group({name}).of({name:?})")),
            ("comm", None) => self.fallible(&format!("library.communicator({name}).of({name:?})")),
            ("datatype", None) => self.fallible(&format!("library.datatype({name}).of({name:?})")),
            ("op", None) => self.fallible(&format!("library.operation({name}).of({name:?})")),
            ("number", None) if facts.or.is_empty() => self.fallible(&format!("number({name}, {name:?})")),
            ("flag", None) => format!("{name} != 0"),
            ("count" | "bytes" | "elements" | "large", None) => format!("i64::from({name})"),
            ("extent" | "displacement", None) => format!("{name} as isize"),
            (_, Some(Length::Argument(of))) => {
                let list = match facts.kind.word {
                    "count" | "elements" => "numbers",
                    _ => "array",
                };
                let pointer = if argument.constant { "" } else { ".cast_const()" };
                let text = format!(
                    "{}.and_then(|n| unsafe {{ {list}({name}{pointer}, n, {name:?}) }})",
                    self.length(of)
                );
                self.fallible(&text)
            }
            _ => name.to_owned(),
        };
        self.given.push(text);
    }

    /// The checked value of the argument that says how long an array is.
    fn length(&self, name: &str) -> String {
        let class = self.function.argument(name).map_or("", |of| of.argument.class);
        let class = if class.is_empty() { "MPI_ERR_ARG" } else { class };
        format!("length({name}, {name:?}, abi::{class})")
    }

    fn output(&mut self, argument: &FunctionArgument) {
        let (name, facts) = (argument.name(), &argument.argument);
        match (facts.kind.word, &facts.length) {
            ("string", Some(Length::Constant(max))) => {
                let length = self.length_after(name);
                let statement = format!(
                    "unsafe {{ put_named(value.as_ref(), abi::{max}, {name}, {name:?}, {length}) }}?;"
                );
                self.taken.push(length);
                self.results.push(Stored { name, statement, is_checked: false });
            }
            ("status", None) => {
                let statement = format!("received({name}, value)?;");
                self.results.push(Stored { name, statement, is_checked: false });
            }
            ("pointer", None) => self.store(argument, "value"),
            (_, Some(Length::Argument(of))) => {
                let length = self.length(of);
                self.given
                    .push(format!("unsafe {{ Places::new({name}, {length}?, {name:?}) }}?"));
            }
            _ if facts.kind.is_memory() || facts.length.is_some() => {
                self.given.push(name.to_owned());
            }
            _ => self.store(argument, "value"),
        }
    }

    /// The name of the argument that takes the length of a string.
    fn length_after(&self, name: &str) -> &'static str {
        let mut rest = self.function.arguments.iter().skip_while(|argument| argument.name() != name);
        rest.nth(1).map_or("", FunctionArgument::name)
    }

    fn store(&mut self, argument: &FunctionArgument, value: &str) {
        let name = argument.name();
        let value = match argument.argument.kind.word {
            "flag" => format!("c_int::from({value})"),
            "request" if argument.argument.intent == Intent::Out => {
                format!("{value}.raw() as Request")
            }
            "count" | "bytes" | "elements" => format!("Number::narrow({value})"),
            _ => value.to_owned(),
        };
        let place = match argument.argument.kind.word {
            "pointer" => format!("{name}.cast::<*mut c_void>()"),
            _ => name.to_owned(),
        };
        let is_checked = !self.function.entry.is.contains(&"collective");
        let is_new = argument.argument.kind.is_handle()
            && argument.argument.kind.word != "request"
            && !self.function.entry.is.contains(&"early");
        if is_new {
            let statement = format!("unsafe {{ value.give(library, {name}, {name:?}) }}?;");
            return self.results.push(Stored { name, statement, is_checked });
        }
        let statement = format!("unsafe {{ put({place}, {value}, {name:?}) }}?;");
        self.results.push(Stored { name, statement, is_checked });
    }

    fn text(&self, call: &str) -> String {
        let mut text = self.before.clone();
        for result in self.results.iter().filter(|result| result.is_checked) {
            let _ = write!(text, "present({0}, {0:?})?; ", result.name);
        }
        match &self.results[..] {
            [] => {
                let _ = write!(text, "{call}");
            }
            [result] => {
                let _ = write!(text, "let value = {call}?; {} Ok(())", result.statement);
            }
            results => {
                let names: Vec<_> = (0..results.len()).map(|at| format!("value{at}")).collect();
                let _ = write!(text, "let ({}) = {call}?; ", names.join(", "));
                for (name, result) in names.iter().zip(results) {
                    let _ = write!(text, "let value = {name}; {} ", result.statement);
                }
                text += "Ok(())";
            }
        }
        text
    }
}
