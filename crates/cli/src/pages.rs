//! `oxmpi man PAGE` and `oxmpi completions SHELL`: manual pages and completions for shells, made
//! from the tables of options, parameters and functions, and by clap. The installer writes them to
//! `share/`.

mod completions;

use clap::CommandFactory as _;
use clap_complete::Shell;
use oxmpi_abi::FuncId;
use oxmpi_abi::manual::ManualPage;
use oxmpi_param::{Level, Param};

use crate::Oxmpi;
use crate::command::{Stop, did_you_mean, failed, usage};

use crate::mpirun::{Chapter, chapters};
use crate::ompi_info::ListOptions;
use crate::wrapper;

/// The manual pages other than those of verbs of `oxmpi`, and their sections.
#[rustfmt::skip] // a table
const PAGES: [(&str, &str); 6] = [
    ("mpirun", "1"), ("mpicc", "1"), ("oxmpi", "1"), ("ompi_info", "1"), ("lamcheckpoint", "1"),
    ("oxmpi-params", "7"),
];

/// Prints a manual page: `oxmpi-VERB` is the page of a verb of `oxmpi`, `MPI_X` that of a function.
pub(crate) fn man(name: &str) -> Result<i32, Stop> {
    let mut oxmpi = Oxmpi::command();
    oxmpi.build();
    let page = match name {
        "mpirun" => mpirun(),
        "mpicc" => mpicc(),
        "oxmpi" => of_command(oxmpi)?,
        "ompi_info" => of_command(ListOptions::command())?,
        "lamcheckpoint" => lamcheckpoint(),
        "oxmpi-params" => params(),
        _ if FuncId::from_name(name).is_some() => of_function(name),
        _ => {
            let verb = name.strip_prefix("oxmpi-").and_then(|verb| oxmpi.find_subcommand(verb));
            let verb = verb.cloned().ok_or_else(|| {
                let verbs =
                    oxmpi.get_subcommands().map(|verb| format!("oxmpi-{}", verb.get_name()));
                let all: Vec<String> =
                    PAGES.iter().map(|(name, _)| name.to_string()).chain(verbs).collect();
                let functions =
                    FuncId::all().chain(FuncId::extensions()).map(|id| -> &str { id.name() });
                let hint = did_you_mean(name, all.iter().map(String::as_str).chain(functions));
                usage(format!(
                    "there is no page '{name}'{hint} (there are {}, and one for each MPI function)",
                    all.join(", ")
                ))
            })?;
            of_command(verb)?
        }
    };
    crate::say(&page);
    Ok(0)
}

fn of_function(name: &str) -> String {
    let id = FuncId::from_name(name);
    id.map_or_else(String::new, |id| oxmpi_abi::pages::page(id.function().entry).roff())
}

fn command_page(name: &str, section: &'static str, what: &str) -> ManualPage {
    ManualPage::new(vec![name.to_owned()], section, what)
}

fn of_command(command: clap::Command) -> Result<String, Stop> {
    let mut page = Vec::new();
    let made = clap_mangen::Man::new(command).source("OxMPI").manual("OxMPI").render(&mut page);
    made.map_err(failed)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Completed {
    Mpirun,
    Oxmpi,
}

pub(crate) fn completions(shell: Shell, command: Completed) -> Result<i32, Stop> {
    let text = match (command, shell) {
        (Completed::Oxmpi, _) => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Oxmpi::command(), "oxmpi", &mut text);
            String::from_utf8_lossy(&text).into_owned()
        }
        (_, Shell::Bash) => completions::bash(),
        (_, Shell::Zsh) => completions::zsh(),
        (_, Shell::Fish) => completions::fish(),
        _ => return Err(usage(format!("there are no completions of mpirun for {shell}"))),
    };
    crate::say(&text);
    Ok(0)
}

fn mpirun() -> String {
    let mut page = command_page("mpirun", "1", "start the ranks of an MPI job");
    page.heading("SYNOPSIS");
    page.literal(crate::mpirun::SYNOPSIS.trim_start_matches("Usage: "));
    page.heading("DESCRIPTION");
    page.text("Starts the ranks of an MPI job on this host and waits for them. Programs that do not use MPI run too. mpiexec is the same.");
    page.text(
        "Options are understood with one dash and with two; values follow after a blank or a '='.",
    );
    for Chapter { heading, text, options } in chapters() {
        page.heading(&heading.to_uppercase());
        page.text(text);
        for (names, values, help) in options {
            page.entry(&names.join(", "), &values.join(" "), help);
        }
    }
    page.see_also(&PAGES);
    page.roff()
}

fn mpicc() -> String {
    let mut page = command_page("mpicc", "1", "compile programs that use MPI");
    page.heading("SYNOPSIS");
    page.literal(
        "mpicc ARGUMENTS OF THE COMPILER\nmpicxx, mpic++, mpiCC ARGUMENTS OF THE COMPILER\n\
         mpifort, mpif90, mpif77 ARGUMENTS OF THE COMPILER",
    );
    page.heading("DESCRIPTION");
    page.text(&wrapper::help());
    page.see_also(&PAGES);
    page.roff()
}

fn lamcheckpoint() -> String {
    let mut page =
        command_page("lamcheckpoint", "1", "checkpoint and restart a job by LAM/MPI's names");
    page.heading("DESCRIPTION");
    page.text(crate::checkpoint::LAM_HELP);
    page.see_also(&PAGES);
    page.roff()
}

fn params() -> String {
    let mut page = command_page("oxmpi-params", "7", "the parameters of OxMPI");
    page.heading("DESCRIPTION");
    let parameters = chapters().into_iter().find(|chapter| chapter.heading == "Parameters");
    page.text(parameters.map_or("", |chapter| chapter.text));
    for (level, heading) in [
        (Level::User, "PARAMETERS FOR USERS"),
        (Level::Tune, "PARAMETERS FOR TUNING"),
        (Level::Develop, "PARAMETERS FOR WORK ON OXMPI ITSELF"),
    ] {
        let mut of_level = Param::all().iter().filter(|param| param.level == level).peekable();
        if of_level.peek().is_some() {
            page.heading(heading);
        }
        for param in of_level {
            let default = match param.show(&param.default_value()) {
                text if text.is_empty() => "empty".to_string(),
                text => text,
            };
            let also = match param.aliases {
                [] => String::new(),
                names => format!(" Also named {}.", names.join(", ")),
            };
            let wanted = param.wanted();
            let help = format!(
                "{} Default: {default}; {wanted}; {}.{also}",
                param.help,
                param.change.when()
            );
            page.entry(param.name, "", &help);
        }
    }
    page.see_also(&PAGES);
    page.roff()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_abi::manual::escaped;
    use oxmpi_param::Module;

    #[test]
    fn pages_have_every_option_and_every_parameter() {
        let page = mpirun();
        for (names, _, _) in chapters().iter().flat_map(|chapter| &chapter.options) {
            assert!(page.contains(&escaped(&names.join(", "))), "{names:?}");
        }
        let page = params();
        Param::all()
            .iter()
            .for_each(|param| assert!(page.contains(&escaped(param.name)), "{}", param.name));
        for page in [mpirun(), mpicc(), lamcheckpoint(), params()] {
            assert!(page.starts_with(".TH ") && page.contains("\n.SH SEE ALSO\n"));
            let requests = [".TH", ".nh", ".SH", ".PP", ".TP", ".EX", ".EE", ".B ", ".BR"];
            for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
                assert!(requests.iter().any(|request| line.starts_with(request)), "{line}");
            }
        }
    }

    #[test]
    fn completions_know_every_option_and_every_parameter() {
        for script in [completions::bash(), completions::zsh(), completions::fish()] {
            for (names, _, _) in chapters().iter().flat_map(|chapter| &chapter.options) {
                let bare = |name: &str| name.trim_start_matches('-').to_string();
                assert!(names.iter().all(|name| script.contains(&bare(name))), "{names:?}");
            }
            Param::all()
                .iter()
                .for_each(|param| assert!(script.contains(param.name), "{}", param.name));
        }
    }

    /// A changed text is reviewed with `cargo insta review`, or by the file below `snapshots`.
    #[test]
    fn help_texts() {
        let mut oxmpi = Oxmpi::command().term_width(100);
        oxmpi.build();
        let mut text = String::new();
        let mut commands = vec![oxmpi, ListOptions::command().term_width(100)];
        while let Some(mut command) = commands.pop() {
            let name = command.get_display_name().unwrap_or(command.get_name()).to_string();
            text += &format!("==== {name}\n{}\n", command.render_long_help());
            commands.extend(command.get_subcommands().cloned());
        }
        insta::assert_snapshot!(text);
    }

    /// The words that bash offers for the last of `words`.
    fn offered(words: &[&str]) -> Vec<String> {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let script = format!(
            "{}\nCOMP_WORDS=({}); COMP_CWORD={}; _oxmpi_mpirun; printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            completions::bash(),
            quoted.join(" "),
            words.len() - 1
        );
        let output =
            std::process::Command::new("bash").args(["--norc", "-c", &script]).output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(String::from).collect()
    }

    #[test]
    fn bash_completes_options_parameters_and_their_words() {
        assert_eq!(offered(&["mpirun", "--tag"]), ["--tag-output"]);
        assert_eq!(
            offered(&["mpirun", "-n", "4", "--mca", "rpi_tcp_s"]),
            ["rpi_tcp_short", "rpi_tcp_sockbuf"]
        );
        let transports: Vec<_> = Module::all().iter().map(|module| module.name).collect();
        assert_eq!(offered(&["mpirun", "--mca", "rpi", ""]), transports);
        assert_eq!(offered(&["mpirun", "--bind-to", "h"]), ["hwthread"]);
        // Words behind the program are its arguments.
        assert_eq!(offered(&["mpirun", "-n", "4", "program", "--tag"]), [""]);
    }
}
