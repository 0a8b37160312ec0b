//! `docs/parameters.md`: every parameter, from the one table.

use oxmpi_param::tuned::COLLECTIVES;
use oxmpi_param::{Level, Param};

/// The text above the tables.
const HEAD: &str = "\
# Parameters

`cargo xtask docs` writes this page from the table in `crates/param/src/registry.rs` and the folders
of the transports; do not edit it. `oxmpi info --params` prints the values of an installation and
their sources; `oxmpi info --select` prints the effect of `rpi`, `btl`, `pml` and the priorities.

The sources of a value, the strongest first:

1. `mpirun --mca NAME VALUE` (also `-ssi`, `--gmca`);
2. files of `mpirun --tune FILE,...`, then of `--am FILE,...`, of each list the first file first:
   lines `NAME = VALUE`, `--mca NAME VALUE`, `-x NAME=VALUE`; a name without `/` is searched for in
   the current directory, in `~/.oxmpi/amca-param-sets` and in `PREFIX/share/oxmpi/amca-param-sets`;
3. `OXMPI_MCA_NAME` in the environment, where an unknown name is an error;
4. `OMPI_MCA_NAME` in the environment, for names that OxMPI knows;
5. `~/.oxmpi/mca-params.conf`, lines `NAME = VALUE`;
6. `PREFIX/etc/oxmpi-mca-params.conf`, the same;
7. the default.

`OXMPI_PARAM_FILES=FILE:FILE` names files in place of 5 and 6, `OXMPI_PARAM_FILES=none` reads none.
Names may be spelt as in the components guide, with `_ssi_` in them: `rpi_ssi_tcp_short`.
`OXMPI_MPI_THREAD_LEVEL` (also `OMPI_MPI_THREAD_LEVEL`) sets the thread level of a program, whatever
level the program requests.

An unknown name is an error in 1 and 2, too. Errors name file, line and column. Parameters of Open
MPI's components that OxMPI does not have (`coll_adapt`, `coll_portals4`, `btl_openib`, `btl_vader`,
`pml_ucx` and others) do no harm there: to switch such a component or its warnings off
(`coll_fca_enable 0`) is accepted, to tune it gets a warning that it has no effect, and to switch it
on is an error.
";

fn page() -> String {
    let mut out = HEAD.to_string();
    for (level, heading, text) in [
        (Level::User, "For users", "They change what a program can do, or how."),
        (Level::Tune, "For tuning", "They change speed or memory only."),
        (Level::Develop, "For work on OxMPI itself", "They are for finding errors."),
    ] {
        let rows: Vec<&Param> = Param::all()
            .iter()
            .copied()
            .filter(|param| param.level == level && collective(param).is_none())
            .collect();
        if rows.is_empty() {
            continue;
        }
        out += &format!("\n## {heading}\n\n{text}\n\n");
        out += "| parameter | value | default | effect |\n|---|---|---|---|\n";
        rows.iter().for_each(|param| out += &row(param, param.name, param.help));
    }
    let (first, rest) = COLLECTIVES.split_at(COLLECTIVES.len() / 2);
    out += &format!(
        "\n## Each tuned collective\n\nCOLLECTIVE is one of {},\n{}.\n\n\
         | parameter | value | default | effect |\n|---|---|---|---|\n",
        first.join(", "),
        rest.join(", ")
    );
    for param in Param::all().iter().filter(|param| collective(param) == Some(COLLECTIVES[0])) {
        let general = |text: &str| text.replace(COLLECTIVES[0], "COLLECTIVE");
        out += &row(param, &general(param.name), &general(param.help));
    }
    out
}

fn collective(param: &Param) -> Option<&'static str> {
    let rest = param.name.strip_prefix("coll_tuned_")?;
    COLLECTIVES
        .into_iter()
        .find(|name| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with("_algorithm")))
}

fn row(param: &Param, name: &str, help: &str) -> String {
    let also = match param.aliases {
        [] => String::new(),
        names if collective(param).is_none() => format!(" Also `{}`.", names.join("`, `")),
        _ => String::new(),
    };
    let default = match param.show(&param.default_value()) {
        text if text.is_empty() => String::new(),
        text => format!("`{text}`"),
    };
    let cell = |text: &str| text.replace('|', "\\|");
    format!(
        "| `{name}` | {} | {default} | {} {}.{also} |\n",
        cell(&param.wanted()),
        cell(help),
        capital(param.change.when())
    )
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

#[test]
fn the_page_is_current_and_has_every_parameter() {
    let page = page();
    for param in Param::all() {
        let name = match collective(param) {
            Some(name) => param.name.replace(name, "COLLECTIVE"),
            None => param.name.to_string(),
        };
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
    super::is_current("parameters.md", &page);
}
