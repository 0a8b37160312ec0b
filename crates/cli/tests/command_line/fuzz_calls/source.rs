//! The program of the fuzzer: for each function of the interface, C text that draws its arguments
//! and calls it.

use std::fmt::Write as _;

use oxmpi_abi::FuncId;
use oxmpi_abi::callbacks::{CALLBACKS, Callback};
use oxmpi_abi::constants::{CONSTANTS, ConstantKind};
use oxmpi_abi::table::{FunctionArgument, FunctionForm};
use oxmpi_abi::types::HANDLE_TYPES;

/// Functions that are not called: they end the job, start processes, or wait for other processes
/// whatever their arguments are.
const NEVER: [&str; 11] = [
    "MPI_Abort",
    "MPI_Buffer_detach",
    "MPI_Buffer_detach_c",
    "MPI_Buffer_flush",
    "MPI_Comm_join",
    "MPI_Comm_spawn",
    "MPI_Comm_spawn_multiple",
    "MPI_Finalize",
    "MPI_Init",
    "MPI_Init_thread",
    // A write may set the eager limit to 0, after which sends wait for receives.
    "MPI_T_cvar_write",
];

/// Functions that may wait for another rank (with or without `_c`): they get no valid object.
const WAITS: [&str; 29] = [
    "MPI_Comm_accept",
    "MPI_Comm_connect",
    "MPI_Comm_detach_buffer",
    "MPI_Comm_disconnect",
    "MPI_Comm_flush_buffer",
    "MPI_Intercomm_create",
    "MPI_Intercomm_create_from_groups",
    "MPI_Intercomm_merge",
    "MPI_Mprobe",
    "MPI_Neighbor_allgather",
    "MPI_Neighbor_allgatherv",
    "MPI_Neighbor_alltoall",
    "MPI_Neighbor_alltoallv",
    "MPI_Neighbor_alltoallw",
    "MPI_Probe",
    "MPI_Recv",
    "MPI_Sendrecv",
    "MPI_Sendrecv_replace",
    "MPI_Session_detach_buffer",
    "MPI_Session_finalize",
    "MPI_Session_flush_buffer",
    "MPI_Ssend",
    "MPI_Win_complete",
    "MPI_Win_free",
    "MPI_Win_lock",
    "MPI_Win_lock_all",
    "MPI_Win_post",
    "MPI_Win_start",
    "MPI_Win_wait",
];

/// Functions that wait only until the data have left: they send little.
const SHORT: [&str; 3] = ["MPI_Bsend", "MPI_Rsend", "MPI_Send"];

/// Local functions that change the communicator of all ranks: they get one of the rank alone.
const CHANGES: [&str; 1] = ["MPI_Comm_set_errhandler"];

/// Whether one rank may call the function on the communicator of all ranks.
fn is_alone(id: FuncId) -> bool {
    let function = id.function();
    let waits = function.entry.is.contains(&"blocking") && function.form == FunctionForm::Plain;
    !function.entry.is.contains(&"collective")
        && (!waits || is_among(&SHORT, id))
        && !is_among(&CHANGES, id)
}

fn is_among(list: &[&str], id: FuncId) -> bool {
    list.contains(&id.name().trim_end_matches("_c"))
}

pub(crate) fn source() -> String {
    let mut text = "#include \"calls.h\"\n".to_owned();
    let names: Vec<String> = FuncId::all().map(|id| format!("\"{id}\"")).collect();
    let _ = writeln!(text, "static const char *const function_names[] = {{{}}};", names.join(", "));
    for kind in HANDLE_TYPES {
        let _ = writeln!(text, "{}", pool(kind));
    }
    for callback in &CALLBACKS {
        text.push_str(&answer(callback));
    }
    let chosen: Vec<FuncId> = FuncId::all().filter(|id| !NEVER.contains(&id.name())).collect();
    let numbers: Vec<String> = chosen.iter().map(|id| id.index().to_string()).collect();
    let _ = writeln!(
        text,
        "static const int chosen[] = {{{}}};\nstatic void (*const calls[{}])(void);",
        numbers.join(", "),
        names.len()
    );
    text.push_str("#include \"run.h\"\n");
    for &id in &chosen {
        text.push_str(&call(id));
    }
    let table: Vec<String> =
        chosen.iter().map(|id| format!("[{}] = call_{id}", id.index())).collect();
    let _ = writeln!(
        text,
        "static void (*const calls[{}])(void) = {{{}}};",
        names.len(),
        table.join(", ")
    );
    text
}

fn pool(kind: &'static str) -> String {
    let of_kind =
        || CONSTANTS.iter().filter(|constant| constant.kind == ConstantKind::Handle(kind));
    let null = of_kind()
        .find(|constant| constant.name.ends_with("_NULL"))
        .map_or("0", |constant| constant.name);
    let ends = ["MPI_ERRORS_ARE_FATAL", "MPI_ERRORS_ABORT"];
    let mut known: Vec<&str> = of_kind()
        .map(|constant| constant.name)
        .filter(|name| *name != null && !ends.contains(name))
        .collect();
    if known.is_empty() {
        known.push(null);
    }
    if kind == "MPI_Datatype" {
        known.splice(
            0..0,
            [
                "MPI_INT",
                "MPI_BYTE",
                "MPI_DOUBLE",
                "MPI_CHAR",
                "MPI_INT",
                "MPI_LONG",
                "MPI_FLOAT",
                "MPI_INT",
            ],
        );
    }
    format!("POOL({kind}, {null}, {})", known.join(", "))
}

fn answer(callback: &Callback) -> String {
    if callback.result.is_empty() {
        return String::new();
    }
    let result = if callback.result == "void" { "" } else { "return MPI_SUCCESS;" };
    let flag = if callback.params.contains("int *flag") { "*flag = 0; " } else { "" };
    format!(
        "static {} answer_{}({}) {{ {flag}{result} }}\n",
        callback.result, callback.name, callback.params
    )
}

fn call(id: FuncId) -> String {
    let (mut before, mut given, mut after) = (String::new(), Vec::new(), String::new());
    if is_among(&SHORT, id) {
        before.push_str("    plain_types = 1;\n");
    }
    for (at, param) in id.function().arguments.iter().enumerate() {
        let argument = draw(id, param);
        if HANDLE_TYPES.contains(&param.base) && param.stars == 1 && !param.constant {
            let kind = param.base;
            let _ = writeln!(
                before,
                "    {kind} a{at} = {argument}, b{at} = a{at}, *p{at} = is_null() ? NULL : &a{at};"
            );
            given.push(format!("p{at}"));
            let _ = writeln!(after, "    if (p{at}) settle_{kind}(b{at}, a{at});");
            if kind == "MPI_Win" {
                let _ = writeln!(
                    after,
                    "    if (a{at} != b{at} && a{at} != MPI_WIN_NULL) tame_window(a{at});"
                );
            }
            if kind == "MPI_Datatype" {
                let _ = writeln!(
                    after,
                    "    if (a{at} != b{at} && !once_in(8)) PMPI_Type_commit(&a{at});"
                );
            }
        } else {
            let kind =
                if param.by_value() && !is_callback(param.base) { param.base } else { "void *" };
            let _ = writeln!(before, "    {kind} a{at} = {argument};");
            given.push(format!("a{at}"));
            if param.name().ends_with("keyval") && param.stars == 1 {
                let _ = writeln!(after, "    note_keyval(a{at});");
            }
        }
    }
    let arguments = given.join(", ");
    let body = if id.function().returns_code() {
        format!("    if ({id}({arguments}) != MPI_SUCCESS) return;\n{after}")
    } else {
        format!("    {id}({arguments});\n")
    };
    format!("static void call_{id}(void)\n{{\n{before}{body}}}\n")
}

fn is_callback(base: &str) -> bool {
    CALLBACKS.iter().any(|callback| callback.name == base)
}

fn draw(id: FuncId, param: &FunctionArgument) -> String {
    if let Some(callback) = CALLBACKS.iter().find(|callback| callback.name == param.base) {
        let name = if callback.result.is_empty() { callback.params } else { callback.name };
        return format!("is_null() ? NULL : (void *) answer_{name}");
    }
    if HANDLE_TYPES.contains(&param.base) {
        return draw_handle(id, param);
    }
    let name = param.name();
    match (param.base, param.by_value()) {
        ("int", true) => {
            let wide = [
                "rank",
                "dest",
                "source",
                "root",
                "tag",
                "color",
                "key",
                "code",
                "class",
                "order",
                "type",
                "assert",
                "reorder",
                "direction",
                "disp",
                "level",
                "flag",
                "leader",
                "whence",
                "amode",
                "required",
                "commute",
                "index",
                "element",
                "p",
                "r",
            ];
            match name {
                _ if name.contains("keyval") => "pick_keyval()",
                "ndims" => "dimensions()",
                "stride" => "(int) bytes() / 64",
                _ if wide.iter().any(|word| name.ends_with(word)) => "any()",
                _ if id.name().ends_with("_fromint") => "(int) draw()",
                _ => "few()",
            }
            .to_owned()
        }
        ("MPI_Count", true) if name.ends_with("count") || name.starts_with("max") => {
            "few()".to_owned()
        }
        ("MPI_Count" | "MPI_Aint" | "MPI_Offset", true) if name.ends_with("size") => {
            "once_in(2) ? few() : bytes()".to_owned()
        }
        ("MPI_Count" | "MPI_Aint" | "MPI_Offset", true) => "bytes()".to_owned(),
        ("MPI_T_cb_safety", true) => "(MPI_T_cb_safety) below(5)".to_owned(),
        (_, true) => "0".to_owned(),
        ("int", false) if name.contains("weights") => {
            if param.constant { "weights()" } else { "once_in(3) ? MPI_UNWEIGHTED : ints()" }
                .to_owned()
        }
        ("int", false) if param.name().ends_with("keyval") && !id.name().contains("reate") => {
            "keyvals + below(5)".to_owned()
        }
        ("int", false) => "ints()".to_owned(),
        ("MPI_Count" | "MPI_Aint" | "MPI_Offset", false) => "longs()".to_owned(),
        ("MPI_Status", false) => "statuses()".to_owned(),
        ("char", false) => {
            match (param.constant, param.stars + usize::from(!param.brackets.is_empty())) {
                (true, 1) => "(void *) string()",
                (false, 1) => "room()",
                (_, 2) => "strings()",
                _ => "NULL",
            }
            .to_owned()
        }
        ("void", false) => match name {
            "buffer"
                if id.name().contains("attach_buffer") || id.name().contains("Buffer_attach") =>
            {
                "attached()"
            }
            "baseptr" | "buffer_addr" => "room()",
            "attribute_val" if id.name().contains("get") || id.name().contains("Get") => "room()",
            "base" | "location" | "extra_state" | "attribute_val" | "obj_handle" | "user_data" => {
                "place()"
            }
            "logical_true" | "logical_false" => "place()",
            // MPI_IN_PLACE is not valid for these functions.
            _ if id.name().starts_with("MPI_T_") => "place()",
            _ => "buffer()",
        }
        .to_owned(),
        _ => "room()".to_owned(),
    }
}

fn draw_handle(id: FuncId, param: &FunctionArgument) -> String {
    let waits = is_among(&WAITS, id);
    let completes = ["MPI_Wait", "MPI_Waitall", "MPI_Waitany", "MPI_Waitsome"].contains(&id.name());
    let is_array = !param.brackets.is_empty() || (param.stars == 1 && param.constant);
    match param.base {
        "MPI_Comm" if waits => "pick_bad_comm()".to_owned(),
        "MPI_Comm" if is_alone(id) => "pick_MPI_Comm()".to_owned(),
        "MPI_Comm" => "pick_local()".to_owned(),
        // The other members of a larger group would have to call the function too.
        "MPI_Group" if id.name().contains("from_group") => "pick_own_group()".to_owned(),
        "MPI_Win" if waits => "pick_bad_win()".to_owned(),
        "MPI_Session" if waits => "pick_bad_session()".to_owned(),
        "MPI_Request" if completes && is_array => "done_array()".to_owned(),
        "MPI_Request" if completes => "done(pick_MPI_Request())".to_owned(),
        "MPI_Datatype" if param.name().contains("oldtype") => "pick_old()".to_owned(),
        "MPI_Datatype" if param.name() == "array_of_types" => "old_array()".to_owned(),
        "MPI_Datatype" if is_array => "type_array()".to_owned(),
        "MPI_Datatype" if param.by_value() => "pick_type()".to_owned(),
        "MPI_Errhandler" => "pick_handler()".to_owned(),
        base if is_array => format!("array_{base}()"),
        base => format!("pick_{base}()"),
    }
}
