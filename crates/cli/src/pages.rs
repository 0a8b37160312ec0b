//! `oxmpi man PAGE` and `oxmpi completions SHELL`: manual pages and completions for shells, made
//! from the tables of options and of parameters. The installer writes them to `share/`.

mod completions;
mod roff;

use std::ffi::OsString;

use oxmpi_param::nearest::nearest;
use oxmpi_param::{Level, Param};

use crate::mpirun::{Chapter, chapters};
use crate::wrapper;
use roff::RoffPage;

const PAGES: [(&str, &str); 4] = [("mpirun", "1"), ("mpicc", "1"), ("oxmpi", "1"), ("oxmpi-params", "7")];
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

pub(crate) fn man(args: &[OsString]) -> i32 {
    print("man", args, &PAGES.map(|(name, _)| name), |name| match name {
        "mpirun" => mpirun(),
        "mpicc" => mpicc(),
        "oxmpi-params" => params(),
        _ => oxmpi(),
    })
}

pub(crate) fn completions(args: &[OsString]) -> i32 {
    print("completions", args, &SHELLS, |shell| match shell {
        "bash" => completions::bash(),
        "zsh" => completions::zsh(),
        _ => completions::fish(),
    })
}

fn print(word: &str, args: &[OsString], known: &[&str], make: impl Fn(&str) -> String) -> i32 {
    let list = known.join(", ");
    let [name] = args else {
        oxmpi_sys::complain!("oxmpi {word}: name one of {list}");
        return 2;
    };
    let name = name.to_string_lossy();
    if known.contains(&name.as_ref()) {
        crate::say(&make(&name));
        return 0;
    }
    let hint = nearest(&name, known.iter().copied()).map(|near| format!("; did you mean '{near}'?"));
    oxmpi_sys::complain!("oxmpi {word}: there is no '{name}'{} (there are {list})", hint.unwrap_or_default());
    2
}

fn mpirun() -> String {
    let mut page = RoffPage::new("mpirun", "1", "start the ranks of an MPI job");
    page.heading("SYNOPSIS");
    page.literal(crate::mpirun::SYNOPSIS.trim_start_matches("Usage: "));
    page.heading("DESCRIPTION");
    page.text("Starts the ranks of an MPI job on this host and waits for them. Programs that do not use MPI run too. mpiexec is the same.");
    page.text("Options are understood with one dash and with two; values follow after a blank or a '='.");
    for Chapter { heading, text, options } in chapters() {
        page.heading(&heading.to_uppercase());
        page.text(text);
        for (names, values, help) in options {
            page.entry(&names.join(", "), &values.join(" "), help);
        }
    }
    page.see_also(&PAGES)
}

fn mpicc() -> String {
    let mut page = RoffPage::new("mpicc", "1", "compile programs that use MPI");
    page.heading("SYNOPSIS");
    page.literal("mpicc ARGUMENTS OF THE COMPILER\nmpicxx, mpic++, mpiCC ARGUMENTS OF THE COMPILER");
    page.heading("DESCRIPTION");
    page.text(&wrapper::help());
    page.see_also(&PAGES)
}

fn oxmpi() -> String {
    let mut page = RoffPage::new("oxmpi", "1", "explain this installation of OxMPI");
    page.heading("SYNOPSIS");
    page.literal(
        "oxmpi WORD ...\nompi_info ...\nlaminfo ...\nlamboot, lamnodes, lamexec, lamhalt ...\n\
         lamcheckpoint, lamrestart, cr_checkpoint, cr_restart ...",
    );
    let texts = [
        ("DESCRIPTION", crate::HELP),
        ("OXMPI INFO", crate::info::HELP),
        ("OXMPI EXPLAIN", crate::explain::HELP),
        ("OXMPI BENCH", crate::bench::HELP),
        ("OXMPI QUIESCE", crate::quiesce::HELP),
        ("OXMPI CHECKPOINT", crate::checkpoint::HELP),
        ("OXMPI RESTART", crate::checkpoint::RESTART_HELP),
        ("LAMCHECKPOINT, LAMRESTART, CR_CHECKPOINT AND CR_RESTART", crate::checkpoint::LAM_HELP),
        ("OXMPI DOCTOR", crate::doctor::HELP),
        ("OXMPI BOOT", crate::daemons::BOOT_HELP),
        ("OXMPI NODES", crate::daemons::NODES_HELP),
        ("OXMPI EXEC", crate::daemons::EXEC_HELP),
        ("OXMPI HALT", crate::daemons::HALT_HELP),
        ("OMPI_INFO AND LAMINFO", crate::ompi_info::HELP),
    ];
    for (heading, text) in texts {
        page.heading(heading);
        page.text(text);
    }
    page.see_also(&PAGES)
}

fn params() -> String {
    let mut page = RoffPage::new("oxmpi-params", "7", "the parameters of OxMPI");
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
            let help = format!("{} Default: {default}; {wanted}; {}.{also}", param.help, param.change.when());
            page.entry(param.name, "", &help);
        }
    }
    page.see_also(&PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_param::Module;

    #[test]
    fn pages_have_every_option_and_every_parameter() {
        let page = mpirun();
        for (names, _, _) in chapters().iter().flat_map(|chapter| &chapter.options) {
            assert!(page.contains(&roff::escaped(&names.join(", "))), "{names:?}");
        }
        let page = params();
        Param::all()
            .iter()
            .for_each(|param| assert!(page.contains(&roff::escaped(param.name)), "{}", param.name));
        for page in [mpirun(), mpicc(), oxmpi(), params()] {
            assert!(page.starts_with(".TH ") && page.contains("\n.SH SEE ALSO\n"));
            let requests = [".TH", ".SH", ".PP", ".TP", ".EX", ".EE", ".B ", ".BR"];
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
            Param::all().iter().for_each(|param| assert!(script.contains(param.name), "{}", param.name));
        }
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
        let output = std::process::Command::new("bash").args(["--norc", "-c", &script]).output().unwrap();
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
