//! A wrong call of each function that can fail, made from its prototype: its object is the null
//! handle of its type, or the address of a result is a null pointer. For other functions
//! `tests/c/coverage/wrong.txt` has a call by hand, or the reason why the function cannot fail.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use oxmpi_abi::FuncId;
use oxmpi_abi::callbacks::CALLBACKS;
use oxmpi_abi::table::FunctionArgument;

use super::tool::answers;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Never(String),
    InSnippets,
    Call(String),
}

/// Types of objects, with the null handle and its error class. A function is about its first type
/// in this order.
const OBJECTS: [(&str, &str, &str); 13] = [
    ("MPI_Win", "MPI_WIN_NULL", "MPI_ERR_WIN"),
    ("MPI_File", "MPI_FILE_NULL", "MPI_ERR_FILE"),
    ("MPI_Session", "MPI_SESSION_NULL", "MPI_ERR_SESSION"),
    ("MPI_Comm", "MPI_COMM_NULL", "MPI_ERR_COMM"),
    ("MPI_Group", "MPI_GROUP_NULL", "MPI_ERR_GROUP"),
    ("MPI_Message", "MPI_MESSAGE_NULL", "MPI_ERR_REQUEST"),
    ("MPI_Request", "MPI_REQUEST_NULL", "MPI_ERR_REQUEST"),
    ("MPI_Datatype", "MPI_DATATYPE_NULL", "MPI_ERR_TYPE"),
    ("MPI_Op", "MPI_OP_NULL", "MPI_ERR_OP"),
    ("MPI_Errhandler", "MPI_ERRHANDLER_NULL", "MPI_ERR_ERRHANDLER"),
    ("MPI_Info", "MPI_INFO_NULL", "MPI_ERR_INFO"),
    ("MPI_T_pvar_session", "MPI_T_PVAR_SESSION_NULL", "MPI_T_ERR_INVALID_SESSION"),
    ("MPI_T_enum", "MPI_T_ENUM_NULL", "MPI_T_ERR_INVALID_HANDLE"),
];

/// Reads `wrong.txt`: lines `MPI_X never REASON`, `MPI_X snippet`, and `MPI_X C-TEXT`; `#` begins a
/// remark.
pub(crate) fn rules(text: &str) -> BTreeMap<FuncId, Rule> {
    let mut rules = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, rest) = line.split_once(' ').expect("a name and a rule");
        let id =
            FuncId::from_name(name).unwrap_or_else(|| panic!("wrong.txt: {name} is no function"));
        let rest = rest.trim();
        let rule = match rest.split_once(' ') {
            Some(("never", reason)) => Rule::Never(reason.to_owned()),
            None if rest == "snippet" => Rule::InSnippets,
            _ => Rule::Call(rest.to_owned()),
        };
        assert!(rules.insert(id, rule).is_none(), "wrong.txt: {name} twice");
    }
    rules
}

pub(crate) fn snippets(rules: &BTreeMap<FuncId, Rule>) -> (Vec<FuncId>, String) {
    let mut must = Vec::new();
    let mut text = "// ranks: 1\n".to_owned();
    for id in FuncId::all() {
        let call = match rules.get(&id) {
            Some(Rule::Never(_)) => continue,
            Some(Rule::Call(call)) => call.clone(),
            Some(Rule::InSnippets) => {
                must.push(id);
                continue;
            }
            None if !answers(id) => continue,
            None => wrong_call(id),
        };
        must.push(id);
        let _ = writeln!(text, "== wrong_{id}\n{call}");
    }
    (must, text)
}

fn wrong_call(id: FuncId) -> String {
    let all = &id.function().arguments[..];
    if id.name().starts_with("MPI_T_") {
        // The program of the wrong calls does not call MPI_T_init_thread.
        return format!("FAILS({}, MPI_T_ERR_NOT_INITIALIZED);", call(id, all, None));
    }
    for (kind, null, class) in OBJECTS {
        // In other functions MPI_INFO_NULL is valid.
        if kind == "MPI_Info" && !id.name().starts_with("MPI_Info_") {
            continue;
        }
        let place = all
            .iter()
            .position(|param| param.base == kind && (param.by_value() || is_both(id, param)));
        if let Some(at) = place {
            return format!("{kind} wrong = {null}; FAILS({}, {class});", call(id, all, Some(at)));
        }
    }
    let may_be_null = |param: &FunctionArgument| {
        param.base == "void" || (param.base == "MPI_Status" && all.len() > 2)
    };
    let place =
        all.iter().rposition(|param| !param.by_value() && !param.constant && !may_be_null(param));
    match place {
        Some(at) => format!("FAILS({}, MPI_ERR_ARG);", call(id, all, Some(at))),
        // The compiler reports this line, together with all others of the kind.
        None => format!("#error wrong.txt must say how {id} fails"),
    }
}

/// Whether the function reads and writes the handle at an address.
fn is_both(id: FuncId, param: &FunctionArgument) -> bool {
    let ends =
        ["free", "disconnect", "close", "finalize", "commit", "Start", "Cancel", "recv", "recv_c"];
    let is_handle = OBJECTS.iter().any(|(kind, ..)| *kind == param.base);
    is_handle && param.stars == 1 && ends.iter().any(|end| id.name().ends_with(end))
}

fn call(id: FuncId, all: &[FunctionArgument], wrong: Option<usize>) -> String {
    let given = all.iter().enumerate().map(|(at, param)| match wrong == Some(at) {
        true if param.by_value() => "wrong".to_owned(),
        true if is_both(id, param) => "&wrong".to_owned(),
        true => "NULL".to_owned(),
        false => right(param),
    });
    format!("{id}({})", given.collect::<Vec<_>>().join(", "))
}

fn right(param: &FunctionArgument) -> String {
    if CALLBACKS.iter().any(|callback| callback.name == param.base) {
        return "NULL".to_owned();
    }
    if param.by_value() {
        return match param.base {
            "MPI_Comm" => "MPI_COMM_SELF",
            "MPI_Group" => "MPI_GROUP_EMPTY",
            "MPI_Datatype" => "MPI_INT",
            "MPI_Op" => "MPI_SUM",
            "MPI_Info" => "MPI_INFO_NULL",
            "MPI_Errhandler" => "MPI_ERRORS_RETURN",
            "int" | "MPI_Count"
                if ["count", "size", "n"].iter().any(|word| param.name().ends_with(word)) =>
            {
                "1"
            }
            _ => "0",
        }
        .to_owned();
    }
    let place = match (param.base, param.stars, param.brackets) {
        ("char", 1, "") | ("char", 0, "[]") if param.constant => {
            return if param.name() == "datarep" { "\"external32\"" } else { "\"x\"" }.to_owned();
        }
        ("char", 2.., _) | ("char", _, "[]") => return "NULL".to_owned(),
        ("char", ..) => "text",
        ("int", _, "[][3]") => "(void *) some",
        ("int", ..) if param.constant => "some",
        ("int", ..) => "more",
        ("MPI_Datatype", ..) if param.constant => "types",
        ("MPI_Status", ..) => "statuses",
        ("void", ..) => "memory",
        ("MPI_Request", ..) => "requests",
        _ => "(void *) other_memory",
    };
    place.to_owned()
}

#[test]
fn wrong_calls_are_made_from_prototypes() {
    let (must, text) = snippets(&rules(
        "# remark\nMPI_Init never it is called once\nMPI_Abort snippet\nMPI_Finalized FAILS(1, 2);\n\
        MPI_Initialized never x y\nMPI_Finalize never x y\nMPI_Pcontrol never x y\nMPI_Type_free never x y\n",
    ));
    assert!(must.contains(&FuncId::MPI_Abort) && !must.contains(&FuncId::MPI_Init));
    for part in [
        "== wrong_MPI_Comm_size\nMPI_Comm wrong = MPI_COMM_NULL; FAILS(MPI_Comm_size(wrong, more), MPI_ERR_COMM);",
        "FAILS(MPI_Comm_free(&wrong), MPI_ERR_COMM);",
        "FAILS(MPI_Get_version(more, NULL), MPI_ERR_ARG);",
        "== wrong_MPI_Finalized\nFAILS(1, 2);",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}
