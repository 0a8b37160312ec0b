//! Writes the entry points whose buffers come as array descriptors, `mpi_x_f08ts_`.
//!
//! If no buffer has gaps, the entry point does what that with addresses does. Else a function for
//! sections, which `mpi_x_f08ts_` and `pmpi_x_f08ts_` share, makes C buffers of the sections
//! (`src/sections.rs`) and converts the other arguments as everywhere.

use std::fmt::Write;

use oxmpi_abi::fortran::{FortranArgument, FortranType, Procedure};
use oxmpi_abi::table::{Argument, FunctionForm, Intent, Length, Place};

use crate::F08;
use crate::entry::{EntryBody, callee_type, characters, f08_symbol, parameters, raw_type};

/// The text of the entry point; empty if the procedure has no buffer. It does not call the entry
/// point with addresses, because a tool may have replaced that.
pub(crate) fn entry(procedure: &Procedure, prefix: &str, f08: F08) -> String {
    if !procedure.has_choice() {
        return String::new();
    }
    let is_gnu = f08 == F08::GnuDescriptors;
    let parameters = match is_gnu {
        true => parameters(procedure, |argument| match argument.fortran_type {
            FortranType::Choice if argument.is_f08_choice() => "*const crate::gnu::GnuDescriptor",
            other => raw_type(other),
        }),
        false => {
            let all = parameters(procedure, |argument| match argument.fortran_type {
                FortranType::Choice | FortranType::Character => "*const ArrayDescriptor",
                other => raw_type(other),
            });
            // The length of a CHARACTER is in its descriptor.
            all.split(", ")
                .filter(|one| !one.ends_with("_len: usize"))
                .collect::<Vec<_>>()
                .join(", ")
        }
    };
    let mut before = String::new();
    if is_gnu {
        for FortranArgument { name, .. } in buffers(procedure) {
            let _ = write!(before, "let {name} = (*{name}).standard(); ");
            let _ = write!(before, "let {name} = {name}.place(); ");
        }
    } else {
        for FortranArgument { name, .. } in characters(procedure) {
            let _ = write!(before, "let {name}_len = (*{name}).element_bytes() as usize; ");
            let _ = write!(before, "let {name} = (*{name}).address().cast(); ");
        }
    }
    let mut plain = String::new();
    for FortranArgument { name, .. } in buffers(procedure) {
        let _ = write!(plain, "let {name} = (*{name}).address(); ");
    }
    plain += &EntryBody::of(procedure, prefix);
    let body = if has_sections(procedure) {
        let mut given = vec![format!("c::{prefix}{}", procedure.callee)];
        given.extend(procedure.arguments.iter().map(|argument| argument.name.to_owned()));
        given.extend(characters(procedure).map(|text| format!("{}_len", text.name)));
        let are_plain: Vec<_> =
            buffers(procedure).map(|buffer| format!("(*{}).is_plain()", buffer.name)).collect();
        format!(
            "{before} if {} {{ {plain} }} else {{ put(ierror, with_sections::{}({})) }}",
            are_plain.join(" && "),
            procedure.name,
            given.join(", ")
        )
    } else {
        before + &plain
    };
    let body = match kind_check(procedure) {
        Some(check) if f08 == F08::Descriptors => format!("{check} else {{ {body} }}"),
        _ => body,
    };
    let name = format!("{prefix}{}_f08ts", procedure.name);
    let symbol = f08_symbol(procedure, prefix, f08, "_f08ts");
    format!("entry! {{ \"{symbol}_\" fn {name}({parameters}) {{ {body} }} }}\n")
}

/// Refuses elements of a longer kind than that of the module. Arguments for the root alone may be
/// anything at other processes, and so may those without data.
fn kind_check(procedure: &Procedure) -> Option<String> {
    let facts = buffers(procedure).find_map(|buffer| {
        let facts = &buffer.c?.argument;
        (facts.kind.word == "buffer" && facts.at != Place::Root).then_some(facts)
    })?;
    let [.., count, of_type] = facts.of[..] else { panic!("{}", procedure.name) };
    Some(format!(
        "if let Some(of) = crate::kinds::longer_than(&*{}, *{of_type}) && (*{count}).whole() > 0 \
         {{ put(ierror, crate::kinds::refuse_longer(\"{}\", of)) }}",
        facts.name, procedure.name
    ))
}

fn buffers(procedure: &Procedure) -> impl Iterator<Item = &FortranArgument> {
    procedure.arguments.iter().filter(|argument| argument.is_f08_choice())
}

/// Whether the procedure reads or changes its buffers, or only takes their addresses.
fn has_sections(procedure: &Procedure) -> bool {
    buffers(procedure).any(|buffer| buffer.c.is_some_and(|c| c.argument.kind.word != "place"))
}

/// When the operation of a procedure has ended: the name of a variant of `Ends`.
fn ends(procedure: &Procedure) -> &'static str {
    let form = procedure.function.map_or(FunctionForm::Plain, |function| function.form);
    let has = |name| procedure.arguments.iter().any(|argument| argument.name == name);
    let plain_name = procedure.name.trim_end_matches("_c");
    match form {
        FunctionForm::Nonblocking | FunctionForm::Request => "WithRequest",
        FunctionForm::Persistent => "WithStartedRequest",
        FunctionForm::Plain if has("win") || has("partitions") => "Unknown",
        FunctionForm::Plain if plain_name.ends_with("_begin") => "Unknown",
        FunctionForm::Plain => "AtReturn",
    }
}

/// The text of the function for sections of a procedure; `None` if it has no buffer.
pub(crate) fn sections(procedure: &Procedure) -> Option<String> {
    if !procedure.has_choice() || !has_sections(procedure) {
        return None;
    }
    let ends = ends(procedure);
    let mut body = EntryBody::default();
    let has_root = procedure.arguments.iter().any(|argument| argument.name == "root");
    if has_root {
        body.before += "let place = root_place(comm, *root); ";
    }
    if has(procedure, "fh") {
        body.before += "sections.find_representation(fh); ";
    }
    for buffer in buffers(procedure) {
        let facts = &buffer.c?.argument;
        let significant = significant(procedure, facts, has_root);
        add_buffer(&mut body, procedure, facts, significant);
    }
    let keeps = ends.starts_with("With");
    if keeps {
        body.before += "let mut request_c = UNSET; ";
        body.converted.insert("request", "&mut request_c".to_owned());
    }
    body.add_all(procedure);
    let parameters = {
        let of = |argument: &FortranArgument| match argument.fortran_type {
            FortranType::Choice => "*const ArrayDescriptor",
            other => raw_type(other),
        };
        parameters(procedure, of).replace(", ierror: *mut c_int", "")
    };
    let finish = match keeps {
        true => "if code == 0 { sections.keep(request, request_c) } else { code }",
        false => "sections.finish(); code",
    };
    let (name, callee) = (procedure.name, callee_type(procedure.callee));
    let (before, given, after) = (body.before, body.given.join(", "), body.after);
    Some(format!(
        "#[cold] #[inline(never)] pub(super) unsafe fn {name}(call: c::{callee}, {parameters}) -> \
         c_int {{ unsafe {{ let mut sections = Sections::new(\"{name}\", Ends::{ends}); {before} \
         let code = call({given}); {after} {finish} }} }}\n"
    ))
}

/// An expression that says whether this process uses the argument.
fn significant(procedure: &Procedure, facts: &Argument, has_root: bool) -> Option<&'static str> {
    let other_is_at_root =
        buffers(procedure).any(|buffer| buffer.c.is_some_and(|c| c.argument.at == Place::Root));
    match facts.at {
        _ if !has_root => None,
        Place::Root => Some("place == RootPlace::Root || place == RootPlace::FarRoot"),
        // On an intercommunicator only one group has data of its own.
        _ if other_is_at_root => Some("place != RootPlace::FarRoot && place != RootPlace::Idle"),
        _ => Some("place != RootPlace::Idle"),
    }
}

/// Makes a C buffer of an argument.
fn add_buffer(body: &mut EntryBody, procedure: &Procedure, facts: &Argument, when: Option<&str>) {
    let name = facts.name;
    let used = if facts.intent == Intent::In { "Use::Reads" } else { "Use::Changes" };
    let of = &facts.of;
    let value = |name: &str| format!("(*{name}).whole()");
    let datatype = |name: &str| format!("datatype::input({name})");
    let is_reduction = procedure
        .function
        .is_some_and(|function| function.argument("op").is_some() && !has(procedure, "win"));
    let (made, otherwise) = match facts.kind.word {
        "place" => {
            body.converted.insert(name, format!("choice_address((*{name}).address())"));
            return;
        }
        "memory" if procedure.name.contains("ack") => {
            (format!("sections.memory({name}, {}, {used})", value(of[0])), "")
        }
        "memory" => (format!("sections.fixed({name})"), ""),
        "element" => (format!("sections.element({name}, {})", datatype(of[0])), ""),
        "buffer" if is_reduction => {
            let elements = elements(procedure, name);
            let made = format!("sections.operand({name}, {elements}, {}, {used})", datatype(of[1]));
            (made, "address")
        }
        "buffer" => {
            let [.., count, of_type] = of[..] else { panic!("{}: {name}", procedure.name) };
            let (count_c, type_c) = (value(count), datatype(of_type));
            body.converted.insert(count, format!("{name}_c.count as _"));
            body.converted.insert(of_type, format!("{name}_c.datatype"));
            let made = match blocks(procedure.name, name) {
                Some(blocks) => {
                    format!("sections.blocks({name}, {blocks}, {count_c}, {type_c}, {used})")
                }
                None => format!("sections.message({name}, {count_c}, {type_c}, {used})"),
            };
            (made, "buffer")
        }
        "blocks" => {
            let [counts, displacements, of_type] = of[..] else {
                panic!("{}: {name}", procedure.name)
            };
            let list = format!("({counts}, {displacements}, {})", length(procedure, counts));
            if is_list(procedure, of_type) {
                (format!("sections.blocks_of({name}, {list}, {of_type}, {used})"), "buffer")
            } else {
                body.converted.insert(of_type, format!("{name}_c.datatype"));
                let of_type = datatype(of_type);
                (format!("sections.blocks_at({name}, {list}, {of_type}, {used})"), "buffer")
            }
        }
        word => panic!("{}: {name}: {word}", procedure.name),
    };
    let address = format!("choice_address((*{name}).address())");
    let otherwise = match (otherwise, &facts.of[..]) {
        ("buffer", [.., count, of_type]) if facts.kind.word == "buffer" => {
            format!("CBuffer::plain({address}, {}, {})", value(count), datatype(of_type))
        }
        ("buffer", [.., of_type]) if is_list(procedure, of_type) => {
            format!("CBuffer::plain({address}, 0, 0)")
        }
        ("buffer", [.., of_type]) => {
            format!("CBuffer::plain({address}, 0, {})", datatype(of_type))
        }
        _ => address,
    };
    let made = format!("match {made} {{ Ok(made) => made, Err(code) => return code }}");
    let made = match when {
        Some(when) => format!("if {when} {{ {made} }} else {{ {otherwise} }}"),
        None => made,
    };
    let _ = write!(body.before, "let {name}_c = {made}; ");
    let given = match facts.kind.word {
        "buffer" if is_reduction => format!("{name}_c"),
        "buffer" | "blocks" => format!("{name}_c.address"),
        _ => format!("attached_address({name}_c)"),
    };
    body.converted.insert(name, given);
}

fn has(procedure: &Procedure, name: &str) -> bool {
    procedure.arguments.iter().any(|argument| argument.name == name)
}

fn is_list(procedure: &Procedure, name: &str) -> bool {
    let mut arguments = procedure.arguments.iter().filter_map(|argument| argument.c);
    arguments.any(|c| c.name() == name && c.argument.length.is_some())
}

/// The number of blocks in lists.
fn length(procedure: &Procedure, counts: &str) -> &'static str {
    let mut arguments = procedure.arguments.iter().filter_map(|argument| argument.c);
    let found = arguments.find(|c| c.name() == counts).and_then(|c| c.argument.length.as_ref());
    match found {
        Some(Length::Ranks) => "ranks_of(comm)",
        Some(Length::Sources) => "sources_of(comm)",
        Some(Length::Destinations) => "destinations_of(comm)",
        other => panic!("{}: {counts}: {other:?}", procedure.name),
    }
}

/// The number of blocks in a buffer, if `count` is that of one block.
fn blocks(procedure: &str, buffer: &str) -> Option<&'static str> {
    // The forms of a function have the same buffers: MPI_Ialltoall_c has those of MPI_Alltoall.
    let lower = procedure.trim_end_matches("_c").trim_end_matches("_init").to_lowercase();
    let verb = lower.trim_start_matches("mpi_");
    let is = |plain: &str| verb == plain || verb.strip_prefix('i') == Some(plain);
    match buffer {
        "buf" if matches!(verb, "psend" | "precv") => Some("(*partitions).whole()"),
        "recvbuf" if is("allgather") || is("gather") || is("alltoall") => {
            Some("ranks_of(comm).into()")
        }
        "sendbuf" if is("scatter") || is("alltoall") => Some("ranks_of(comm).into()"),
        "recvbuf" if is("neighbor_allgather") || is("neighbor_alltoall") => {
            Some("sources_of(comm).into()")
        }
        "sendbuf" if is("neighbor_alltoall") => Some("destinations_of(comm).into()"),
        _ => None,
    }
}

/// The number of elements of an operand or a result.
fn elements(procedure: &Procedure, buffer: &str) -> String {
    let is_scattered = has(procedure, "recvcounts");
    let all = match is_scattered {
        true => "sum(recvcounts, size_of_comm(comm))",
        false if has(procedure, "recvcount") => {
            "(*recvcount).whole().saturating_mul(size_of_comm(comm).into())"
        }
        false => return "(*count).whole()".to_owned(),
    };
    let own = match is_scattered {
        true => "own(recvcounts, comm)",
        false => "(*recvcount).whole()",
    };
    match buffer {
        "sendbuf" => all.to_owned(),
        _ => format!("if is_in_place((*sendbuf).address()) {{ {all} }} else {{ {own} }}"),
    }
}
