//! Faces of the functions of the tool interface (`MPI_T_*`), whose errors are codes without texts.

use oxmpi_abi::table::{Function, FunctionArgument, Intent, Length};

use crate::bodies::Body;

/// The call of a body. It gets all inputs, names as `&str` and handles at addresses by value, and
/// returns the results in their order. A result whose place may be null is stored if it is wanted.
pub(crate) fn tool(function: &'static Function, body: Body) -> String {
    let (mut given, mut checks, mut statements) = (Vec::new(), String::new(), Vec::new());
    for argument in &function.arguments {
        let (name, facts) = (argument.name(), &argument.argument);
        let of = lengths(function, name);
        let may_be_null = facts.or.contains(&"null");
        match facts.intent {
            Intent::In if !of.is_empty() => continue,
            Intent::In if facts.kind.word == "string" => {
                given.push(format!("unsafe {{ tool::name({name}) }}?"));
                continue;
            }
            Intent::In => {
                given.push(name.to_owned());
                continue;
            }
            Intent::InOut if of.iter().any(|of| of.argument.kind.word == "string") => continue,
            Intent::InOut if of.is_empty() => {
                given.push(format!("unsafe {{ tool::fetch({name}) }}?"));
            }
            Intent::InOut | Intent::Out => {}
        }
        if facts.intent == Intent::Out && !may_be_null && facts.length.is_none() {
            checks += &format!("tool::present({name})?; ");
        }
        let value = format!("value{}", statements.len());
        let stored = match (facts.kind.word, &facts.length) {
            ("string", Some(Length::Argument(of))) => {
                format!("put_string({value}.as_ref(), {name}, {of})")
            }
            (_, Some(Length::Argument(of))) if of_input(function, of) => {
                format!("put_indices(&{value}, {of}, {name})?")
            }
            (_, Some(Length::Argument(of))) => format!("put_elements(&{value}, {of}, {name})"),
            ("place", _) => format!("put_bytes({value}.as_ref(), {name})"),
            ("info", _) => format!("put_info({value}, {name})"),
            ("flag", _) => format!("put_wanted({name}, c_int::from({value}))"),
            _ => format!("put_wanted({name}, {value})"),
        };
        statements.push(format!("unsafe {{ tool::{stored} }}; "));
    }
    let call = format!("{}({})", body.name(function), given.join(", "));
    if statements.is_empty() {
        return format!("tool::call(|| {{ {checks}{call} }})");
    }
    let values: Vec<_> = (0..statements.len()).map(|at| format!("value{at}")).collect();
    let pattern =
        if values.len() == 1 { values.concat() } else { format!("({})", values.join(", ")) };
    format!("tool::call(|| {{ {checks}let {pattern} = {call}?; {}Ok(()) }})", statements.concat())
}

/// The arguments whose length this argument is.
fn lengths(function: &'static Function, name: &str) -> Vec<&'static FunctionArgument> {
    let has = |argument: &&FunctionArgument| matches!(argument.argument.length, Some(Length::Argument(of)) if of == name);
    function.arguments.iter().filter(has).collect()
}

fn of_input(function: &Function, name: &str) -> bool {
    function.argument(name).is_some_and(|argument| argument.argument.intent == Intent::In)
}
