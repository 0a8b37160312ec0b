//! Writes the C face: for each function of the table, the `extern "C"` function that checks the
//! arguments, finds the objects, calls the body, and stores the results.

use std::fmt::Write;

use oxmpi_abi::table::{Argument, Function, FunctionArgument, FunctionForm, Intent, Length};

use crate::bodies::{Body, Takes, body, has_call_form};
use crate::tools::tool;

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
        _ if !function.returns_code() => raw(function, body),
        _ if function.name.starts_with("MPI_T_") && body.takes == Takes::Resolved => {
            tool(function, body)
        }
        Takes::Raw => raw(function, body),
        Takes::Resolved => resolved(function, body),
    };
    let result = oxmpi_abi::table::rust_base(function.result);
    format!("mpi! {{ fn {name}({}) -> {result} {{ {code} }} }}\n", parameters.join(", "))
}

/// The call of a body that takes raw arguments.
fn raw(function: &'static Function, body: Body) -> String {
    let mut given = Vec::new();
    if function.returns_code() {
        given.push(format!("FuncId::{}", function.name));
    }
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
                FunctionForm::Plain => "CallForm::Blocking",
                FunctionForm::Persistent => "CallForm::Persistent(info, request)",
                FunctionForm::Nonblocking | FunctionForm::Request => {
                    "CallForm::Nonblocking(request)"
                }
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
            // The number of partitions stays an argument of its own.
            let of = &of[of.len() - 2..];
            taken.extend(of);
            format!(
                "BufferArgs {{ address: {name}.cast(), count: i64::from({0}), datatype: {1}, \
                 names: &BufferNames {{ address: {name:?}, count: {0:?}, datatype: {1:?} }} }}",
                of[0], of[1]
            )
        }
        "element" => {
            taken.extend(of.clone());
            format!(
                "BufferArgs {{ address: {name}.cast(), count: 1, datatype: {0}, \
                 names: &BufferNames {{ address: {name:?}, count: \"count\", datatype: {0:?} }} }}",
                of[0]
            )
        }
        "blocks" => {
            taken.extend(of.clone());
            let is_one = function.argument(of[2]).is_some_and(FunctionArgument::by_value);
            format!(
                "BlockArgs {{ address: {name}.cast(), counts: {}, displacements: {}, \
                 types: BlockTypes::{}({}), names: &BlockNames {{ address: {name:?}, \
                 counts: {:?}, displacements: {:?}, types: {:?} }} }}",
                number_array(function, of[0]),
                number_array(function, of[1]),
                if is_one { "One" } else { "Each" },
                of[2],
                of[0],
                of[1],
                of[2]
            )
        }
        "rank" if name == "target_rank" && function.argument("target_count").is_some() => {
            taken.extend(["target_disp", "target_count", "target_datatype"]);
            "TargetArgs { rank: target_rank, disp: target_disp, \
             count: i64::from(target_count), datatype: target_datatype }"
                .to_owned()
        }
        word if is_number(word) && argument.by_value() => widened(word, name),
        "count" | "displacement" if argument.constant => number_array(function, name),
        _ => name.to_owned(),
    }
}

/// Whether the C type of the kind depends on the form.
fn is_number(word: &str) -> bool {
    matches!(word, "count" | "bytes" | "elements" | "large" | "extent" | "displacement")
}

/// The number as bodies take it, whatever the form.
fn widened(word: &str, number: &str) -> String {
    match word {
        "extent" | "displacement" => format!("{number} as isize"),
        _ => format!("i64::from({number})"),
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
    let count = ["count", "recvcount"].into_iter().find(|name| function.argument(name).is_some());
    taken.extend(["recvbuf", "datatype", "op"]);
    taken.extend(count);
    let names = |address: &str| {
        let count = count.unwrap_or("recvcounts");
        format!("BufferNames {{ address: {address:?}, count: {count:?}, datatype: \"datatype\" }}")
    };
    format!(
        "ReductionArgs {{ send: sendbuf, receive: recvbuf, count: {}, datatype, op, \
         names: &[{}, {}] }}",
        count.map_or("0".to_owned(), |count| format!("i64::from({count})")),
        names("sendbuf"),
        names("recvbuf")
    )
}

/// Whether the function makes a datatype of numbers, which remembers whether they were large.
fn makes_datatype(function: &Function) -> bool {
    function.entry.forms.contains(&"large") && function.argument("newtype").is_some()
}

fn form_of(function: &Function) -> &'static str {
    if function.large { "TypeForm::Count" } else { "TypeForm::Int" }
}

/// Whether the body only reads datatypes, for numbers or for a new datatype: it frees nothing and
/// calls no function of the program, so the lookups count no references.
fn only_reads(function: &Function) -> bool {
    makes_datatype(function)
        || function.arguments.iter().all(|argument| {
            let (facts, word) = (&argument.argument, argument.argument.kind.word);
            match word {
                "datatype" => facts.intent == Intent::In && facts.length.is_none(),
                _ => word == "status" || !facts.kind.is_handle() && !facts.kind.is_memory(),
            }
        })
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
    check: Check,
}

/// When the place of a result is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Before the call.
    Before,
    /// Before the call, which gets the result of the check after its other arguments. One process
    /// alone cannot undo a collective call.
    InCall,
    /// When the result is stored.
    After,
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
    let on = raised_on(function);
    let object = if on.is_none() { parts.object() } else { None };
    // A slice has its length.
    let lengths = function.arguments.iter().filter_map(|argument| {
        let facts = &argument.argument;
        match &facts.length {
            Some(Length::Argument(of)) if facts.intent != Intent::InOut => Some(*of),
            Some(Length::Argument(of)) if is_changed_in_place(argument) => Some(*of),
            _ => None,
        }
    });
    parts.taken.extend(lengths);
    let in_first = |name: &&str| body.first.contains(&format!("({name})"));
    parts.taken.extend(function.arguments.iter().map(FunctionArgument::name).filter(in_first));
    let is_early = function.entry.is.contains(&"early");
    let first = if makes_datatype(function) { form_of(function) } else { body.first };
    if !first.is_empty() {
        parts.given.insert(0, first.to_owned());
    }
    if !is_early {
        parts.given.insert(usize::from(!first.is_empty()), "library".to_owned());
    }
    for argument in &function.arguments {
        parts.add(argument, object.map(|(name, _)| name));
    }
    parts.given.extend(parts.places());
    let call = format!("{}({})", body.name(function), parts.given.join(", "));
    let text = parts.text(&call);
    let id = format!("FuncId::{}", function.name);
    let run = |text: &str| match is_early {
        true => format!("(|| {{ {text} }})()"),
        false => format!("library().and_then(|library| {{ {text} }})"),
    };
    match object {
        Some((name, kind)) if parts.taken.contains(&name) => {
            // The handle at the address, which the call changes.
            let call = match kind {
                "Request" | "Message" => {
                    let on = kind.to_lowercase();
                    format!("on_{on}({id}, handle, |library, handle| {{ {text} }})")
                }
                _ => format!(
                    "let result = {}; outcome({id}, Some(On::{kind}(handle)), result)",
                    run(&text)
                ),
            };
            format!(
                "let handle = match unsafe {{ fetch({name}, {name:?}) }} {{ \
                     Ok(handle) => handle, \
                     Err(error) => return outcome({id}, None, Err(error)), \
                 }}; {call}"
            )
        }
        Some((name, kind)) if is_early => {
            format!("outcome({id}, Some(On::{kind}({name})), {})", run(&text))
        }
        Some((name, kind)) => {
            // Calls on requests take null handles as they are.
            let is_object = !["Request", "Message"].contains(&kind);
            let on = kind.to_lowercase();
            let on = match kind {
                _ if !is_object => format!("on_{on}({id}, {name}"),
                "Comm" => format!("on_comm_named({id}, {name}, {name:?}"),
                _ => format!("on_{on}({id}, {name}, {name:?}"),
            };
            let null = function.argument(name).filter(|_| is_object);
            let null = null.and_then(|object| object.argument.or.first());
            let Some(null) = null else {
                return format!("{on}, |library, {name}| {{ {text} }})");
            };
            format!(
                "if {name} == abi::{null} {{ \
                     let result = library().and_then(|library| {{ let {name} = None; {text} }}); \
                     return outcome({id}, Some(On::{kind}(abi::{null})), result); \
                 }} \
                 {on}, |library, {name}| {{ let {name} = Some({name}); {text} }})"
            )
        }
        None => {
            let on = on.map_or("None".to_owned(), |on| format!("Some(On::{on})"));
            format!("outcome({id}, {on}, {})", run(&text))
        }
    }
}

/// The error handler of an object that does not exist yet.
fn raised_on(function: &Function) -> Option<&'static str> {
    if function.entry.is.contains(&"unopened") {
        return Some("File(abi::MPI_FILE_NULL)");
    }
    let handler = function.argument("errhandler").filter(|handler| handler.by_value())?;
    let created =
        function.arguments.iter().find(|argument| argument.argument.intent == Intent::Out)?;
    match (handler.argument.kind.word, created.argument.kind.word) {
        ("errhandler", "comm") => Some("Creation(errhandler)"),
        ("errhandler", "session") => Some("SessionCreation(errhandler)"),
        _ => None,
    }
}

/// Whether the argument is an array of numbers that the call changes.
fn is_changed_in_place(argument: &FunctionArgument) -> bool {
    let facts = &argument.argument;
    facts.intent == Intent::InOut
        && matches!(facts.length, Some(Length::Argument(_)))
        && facts.kind.plain == "int"
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
            "request" => Some("Request"),
            "message" => Some("Message"),
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
        self.check_request(argument, "handle");
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
            self.check_request(argument, name);
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
            Intent::InOut if is_changed_in_place(argument) => {
                let text = self.array(argument, "array_mut").unwrap_or_default();
                let text = self.fallible(&text);
                self.given.push(text);
            }
            Intent::InOut => match facts.kind.word {
                "status" if facts.length.is_none() => {
                    let text =
                        format!("unsafe {{ {name}.as_mut() }}.ok_or_else(|| null({name:?}))?");
                    self.given.push(text);
                }
                _ if facts.kind.is_memory() || facts.length.is_some() => {
                    self.given.push(name.to_owned());
                }
                word => {
                    let fetched = format!("unsafe {{ fetch({name}, {name:?}) }}?");
                    self.given.push(if is_number(word) {
                        widened(word, &fetched)
                    } else {
                        fetched
                    });
                    self.store(argument, "value");
                }
            },
        }
    }

    /// Checks that a request is not MPI_REQUEST_NULL, if that is no valid value.
    fn check_request(&mut self, argument: &FunctionArgument, handle: &str) {
        let facts = &argument.argument;
        if facts.kind.word == "request" && !facts.or.contains(&"MPI_REQUEST_NULL") {
            let _ = write!(self.before, "check_not_null({handle}, {:?})?; ", argument.name());
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
            ("string", _) if !is_everywhere => format!("|| unsafe {{ text({name}, {name:?}) }}"),
            _ if !is_everywhere => name.to_owned(),
            ("string", _) => {
                self.fallible(&format!("unsafe {{ strings::text({name}, {name:?}) }}"))
            }
            ("status", None) => {
                format!("unsafe {{ {name}.as_ref() }}.ok_or_else(|| null({name:?}))?")
            }
            (_, None) if facts.kind.is_handle() && argument.stars == 1 => {
                self.before += &format!("let {name} = unsafe {{ fetch({name}, {name:?}) }}?; ");
                self.check_request(argument, name);
                name.to_owned()
            }
            ("datatype", None) if only_reads(self.function) && !self.has_keyval() => {
                format!("&*unsafe {{ library.glance_at_datatype({name}) }}.of({name:?})?")
            }
            ("group", None) => self.found("group", facts),
            ("comm", None) => self.found("communicator", facts),
            ("datatype", None) if self.has_keyval() => {
                let found = format!("library.datatype({name}).of({name:?})");
                self.fallible(&format!("{found}.map(|object| Named {{ handle: {name}, object }})"))
            }
            ("datatype", None) => self.found("datatype", facts),
            ("op", None) => self.found("operation", facts),
            ("number", None) if facts.or.is_empty() => {
                self.fallible(&format!("arguments::number({name}, {name:?})"))
            }
            ("flag", None) => format!("{name} != 0"),
            (word, None) if is_number(word) => widened(word, name),
            (word, Some(_)) => {
                let list = match word {
                    _ if facts.or.contains(&"MPI_UNWEIGHTED") => "edge_weights",
                    "count" | "elements" => "arguments::numbers",
                    _ => "arguments::array",
                };
                match self.array(argument, list) {
                    Some(text) if list == "arguments::numbers" => {
                        format!("&{}", self.fallible(&text))
                    }
                    Some(text) => self.fallible(&text),
                    None => name.to_owned(),
                }
            }
            _ => name.to_owned(),
        };
        self.given.push(text);
    }

    /// The object of a handle; an option if the handle may be null.
    fn found(&self, of: &str, facts: &Argument) -> String {
        let name = facts.name;
        let found = self.fallible(&format!("library.{of}({name}).of({name:?})"));
        match facts.or.iter().find(|value| value.ends_with("_NULL")) {
            Some(null) => format!("match {name} {{ abi::{null} => None, _ => Some({found}) }}"),
            None => found,
        }
    }

    /// Whether the body calls attribute functions of the program, which get the handle.
    fn has_keyval(&self) -> bool {
        self.function.arguments.iter().any(|argument| argument.argument.kind.word == "keyval")
    }

    /// The result of the function `list` for an array whose length is known before the call.
    fn array(&self, argument: &FunctionArgument, list: &str) -> Option<String> {
        let after = |of: &str, sum: &str| {
            let numbers = self.array(self.function.argument(of)?, "arguments::array")?;
            Some(format!("{numbers}.and_then(|all| {sum}(all, {of:?}))"))
        };
        let count = match argument.argument.length.as_ref()? {
            Length::Argument(of) => self.length(of),
            Length::Dimensions => "comm.cartesian().map(|grid| grid.dims().len())".to_owned(),
            Length::Last(of) => after(of, "last")?,
            Length::Sum(of) => after(of, "sum")?,
            _ => return None,
        };
        let pointer = match argument.argument.kind.word {
            "extent" => ".cast::<isize>()",
            _ if argument.constant || list == "array_mut" => "",
            _ => ".cast_const()",
        };
        let name = argument.name();
        Some(format!("{count}.and_then(|n| unsafe {{ {list}({name}{pointer}, n, {name:?}) }})"))
    }

    /// The checked value of the argument that says how long an array is.
    fn length(&self, name: &str) -> String {
        let class = self.function.argument(name).map_or("", |of| of.argument.class);
        let class = if class.is_empty() { "MPI_ERR_ARG" } else { class };
        format!("arguments::length({name}, {name:?}, abi::{class})")
    }

    fn output(&mut self, argument: &FunctionArgument) {
        let (name, facts) = (argument.name(), &argument.argument);
        match (facts.kind.word, &facts.length) {
            ("string", Some(Length::Constant(max))) => match self.length_after(name) {
                Some(length) => {
                    let statement = format!(
                        "unsafe {{ put_named(value.as_ref(), abi::{max}, {name}, {name:?}, {length}) }}?;"
                    );
                    self.taken.push(length);
                    self.results.push(Stored { name, statement, check: Check::After });
                }
                None => {
                    let statement = format!(
                        "unsafe {{ put_text(value.as_ref(), abi::{max} as usize, {name}, {name:?}) }}?;"
                    );
                    self.results.push(Stored { name, statement, check: Check::Before });
                }
            },
            ("string", Some(Length::Argument(of))) => self.sized_string(name, of),
            ("attribute", None) => {
                let place = format!("{name}.cast::<*const c_void>()");
                let statement = format!("unsafe {{ put({place}, value, {name:?}) }}?;");
                self.results.push(Stored { name, statement, check: Check::After });
            }
            ("status", None) => {
                let statement = format!("unsafe {{ value.write({name}) }}?;");
                self.results.push(Stored { name, statement, check: Check::After });
            }
            ("pointer", None) => self.store(argument, "value"),
            (_, Some(Length::Argument(of))) => {
                let mut length = format!("{}?", self.length(of));
                if facts.or.contains(&"MPI_UNWEIGHTED") {
                    length = format!(
                        "if {name} as usize == abi::MPI_UNWEIGHTED {{ 0 }} else {{ {length} }}"
                    );
                }
                self.given.push(match facts.or.contains(&"MPI_STATUSES_IGNORE") {
                    true => format!("unsafe {{ Places::ignorable({name}, {length}) }}"),
                    false => format!("unsafe {{ Places::new({name}, {length}, {name:?}) }}?"),
                });
            }
            _ if facts.kind.is_memory() || facts.length.is_some() => {
                self.given.push(name.to_owned());
            }
            _ => self.store(argument, "value"),
        }
    }

    /// A string whose room is in another argument. An input does not count the closing zero; an
    /// argument that is changed does, and becomes the size for the whole string.
    fn sized_string(&mut self, name: &'static str, of: &'static str) {
        let is_changed =
            self.function.argument(of).is_some_and(|of| of.argument.intent == Intent::InOut);
        let room = match is_changed {
            true => self.length(of).replacen(of, &format!("unsafe {{ fetch({of}, {of:?}) }}?"), 1),
            false => self.length(of),
        };
        let _ = write!(self.before, "let (place, room) = ({name}, {room}?); ");
        let statement = match is_changed {
            true => {
                format!("unsafe {{ put_sized(value.as_ref(), room, place, {name:?}, {of}) }}?;")
            }
            false => format!("unsafe {{ put_text(value.as_ref(), room + 1, place, {name:?}) }}?;"),
        };
        self.results.push(Stored { name, statement, check: Check::After });
    }

    /// The name of the argument that takes the length of a string.
    fn length_after(&self, name: &str) -> Option<&'static str> {
        let mut rest =
            self.function.arguments.iter().skip_while(|argument| argument.name() != name);
        let next = rest.nth(1).filter(|next| next.argument.intent == Intent::Out)?;
        Some(next.name())
    }

    fn store(&mut self, argument: &FunctionArgument, value: &str) {
        let name = argument.name();
        let value = match argument.argument.kind.word {
            "flag" => format!("c_int::from({value})"),
            "request" if argument.argument.intent == Intent::Out => {
                format!("{value}.raw() as Request")
            }
            "displacement" | "offset" => format!("fitting({value}, {name:?})?"),
            word if is_number(word) => format!("Number::narrow({value} as i64)"),
            _ => value.to_owned(),
        };
        let place = match argument.argument.kind.word {
            "pointer" => format!("{name}.cast::<*mut c_void>()"),
            _ => name.to_owned(),
        };
        let check =
            match (self.function.entry.is.contains(&"collective"), argument.argument.kind.word) {
                (false, _) => Check::Before,
                (true, "file" | "pointer" | "request" | "win") => Check::InCall,
                (true, _) => Check::After,
            };
        let is_new = argument.argument.kind.is_handle()
            && argument.argument.kind.word != "request"
            && !self.function.entry.is.contains(&"early");
        if is_new {
            let statement = format!("unsafe {{ value.give(library, {name}, {name:?}) }}?;");
            return self.results.push(Stored { name, statement, check });
        }
        let statement = format!("unsafe {{ put({place}, {value}, {name:?}) }}?;");
        self.results.push(Stored { name, statement, check });
    }

    /// The check of the places that a collective call checks itself.
    fn places(&self) -> Option<String> {
        let in_call = self.results.iter().filter(|result| result.check == Check::InCall);
        let checks = in_call.map(|result| format!("present({0}, {0:?})", result.name));
        checks.reduce(|all, check| format!("{all}.and({check})"))
    }

    fn text(&self, call: &str) -> String {
        let mut text = self.before.clone();
        for result in self.results.iter().filter(|result| result.check == Check::Before) {
            let _ = write!(text, "present({0}, {0:?})?; ", result.name);
        }
        let is_found =
            self.results.len() > 1 && self.results.last().is_some_and(|last| last.name == "flag");
        match &self.results[..] {
            // The flag says whether there are other results.
            [results @ .., _] if is_found => {
                let _ =
                    write!(text, "let value = {call}?; let found = c_int::from(value.is_some()); ");
                let _ = write!(text, "if let Some(value) = value {{ {} }} ", results[0].statement);
                text += "unsafe { put(flag, found, \"flag\") }?; Ok(())";
            }
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
