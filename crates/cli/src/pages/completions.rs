//! The words that shells offer behind `mpirun`.

use oxmpi_param::Param;

use crate::mpirun::{Opt, chapters};

fn options() -> Vec<Opt> {
    chapters().into_iter().flat_map(|chapter| chapter.options).collect()
}

fn spellings(names: &[&str]) -> Vec<String> {
    let bare = names.iter().map(|name| name.trim_start_matches('-'));
    bare.flat_map(|name| [format!("-{name}"), format!("--{name}")]).collect()
}

fn choices(values: &[&str]) -> Vec<String> {
    match values {
        [one] if one.contains('|') => one
            .split('|')
            .filter(|w| w.chars().all(|c| c.is_ascii_lowercase()))
            .map(String::from)
            .collect(),
        _ => Vec::new(),
    }
}

fn following((names, values, _): &Opt) -> usize {
    if names.contains(&"--help") { 0 } else { values.len() }
}

fn parameters() -> String {
    let mut names: Vec<&str> = Param::names().collect();
    names.sort_unstable();
    names.join(" ")
}

fn worded() -> impl Iterator<Item = (String, String)> {
    Param::all().iter().filter(|param| !param.words().is_empty()).map(|param| {
        let names: Vec<&str> = param.aliases.iter().copied().chain([param.name]).collect();
        (names.join("|"), param.words().join(" "))
    })
}

pub(super) fn bash() -> String {
    let options = options();
    let all: Vec<&str> = options.iter().flat_map(|(names, _, _)| names.iter().copied()).collect();
    let by_count = |count: usize| {
        let of_count = options.iter().filter(|option| following(option) == count);
        of_count.flat_map(|(names, _, _)| spellings(names)).collect::<Vec<_>>().join("|")
    };
    let mut choosing = String::new();
    for (names, values, _) in &options {
        let words = choices(values);
        if !words.is_empty() {
            choosing += &format!(
                "        {}) COMPREPLY=($(compgen -W '{}' -- \"$cur\")); return ;;\n",
                spellings(names).join("|"),
                words.join(" ")
            );
        }
    }
    let words: String = worded()
        .map(|(names, words)| format!("            {names}) words='{words}' ;;\n"))
        .collect();
    format!(
        "\
# Completion of mpirun and mpiexec in bash, from 'oxmpi completions bash'.
_oxmpi_mpirun() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} before= at=1 words=
    COMPREPLY=()
    (( COMP_CWORD > 1 )) && before=${{COMP_WORDS[COMP_CWORD-2]}}
    # Behind the program all words are its own, up to the next ':'.
    while (( at < COMP_CWORD )); do
        case ${{COMP_WORDS[at]}} in
            {two}) (( at += 2 )) ;;
            {one}) (( at += 1 )) ;;
            -*|C|N) ;;
            *)  while (( at < COMP_CWORD )) && [[ ${{COMP_WORDS[at]}} != : ]]; do (( at += 1 )); done
                (( at == COMP_CWORD )) && return ;;
        esac
        (( at += 1 ))
    done
    case $prev in
        --mca|-mca|--ssi|-ssi|--gmca|-gmca) COMPREPLY=($(compgen -W '{parameters}' -- \"$cur\")); return ;;
{choosing}    esac
    case $before in
        --mca|-mca|--ssi|-ssi|--gmca|-gmca)
            case $prev in
{words}            esac
            COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); return ;;
    esac
    case $cur in
        -*) COMPREPLY=($(compgen -W '{all}' -- \"$cur\")) ;;
        *) (( at == COMP_CWORD )) && COMPREPLY=($(compgen -A command -A file -- \"$cur\")) ;;
    esac
}}
complete -o default -F _oxmpi_mpirun mpirun mpiexec
",
        two = by_count(2),
        one = by_count(1),
        parameters = parameters(),
        all = all.join(" "),
    )
}

pub(super) fn zsh() -> String {
    let mut lines = String::new();
    for (names, values, help) in &options() {
        let help: String = help
            .chars()
            .map(|c| if matches!(c, '[' | ']' | '\'' | ':') { ' ' } else { c })
            .collect();
        let is_parameter = names.contains(&"--mca");
        let words = choices(values);
        let ends: String = values
            .iter()
            .take(following(&(names, values, "")))
            .enumerate()
            .map(|(at, value)| {
                let message: String =
                    value.chars().filter(|c| !matches!(c, ':' | '[' | ']' | '\'')).collect();
                match (is_parameter, at) {
                    (true, 0) => format!(":{message}:({})", parameters()),
                    _ if !words.is_empty() => format!(":{message}:({})", words.join(" ")),
                    _ if message.contains("FILE") || message.contains("DIR") => {
                        format!(":{message}:_files")
                    }
                    _ => format!(":{message}: "),
                }
            })
            .collect();
        names.iter().for_each(|name| lines += &format!("    '*{name}[{help}]{ends}' \\\n"));
    }
    format!(
        "\
#compdef mpirun mpiexec
# Completion of mpirun and mpiexec in zsh, from 'oxmpi completions zsh'.
_arguments -S \\
{lines}    '(-):program:_command_names -e' \\
    '*::arguments:_normal'
"
    )
}

pub(super) fn fish() -> String {
    let mut out = String::from(
        "# Completion of mpirun and mpiexec in fish, from 'oxmpi completions fish'.\n",
    );
    for (names, values, help) in &options() {
        let mut flags = String::new();
        for name in names.iter() {
            let bare = name.trim_start_matches('-');
            flags += &match (bare.len(), name.starts_with("--")) {
                (1, _) => format!(" -s {bare}"),
                (_, true) => format!(" -l {bare}"),
                (_, false) => format!(" -o {bare}"),
            };
        }
        let words = choices(values);
        if names.contains(&"--mca") {
            flags += &format!(" -x -a '{}'", parameters());
        } else if !words.is_empty() {
            flags += &format!(" -x -a '{}'", words.join(" "));
        } else if following(&(names, values, "")) > 0 {
            flags += " -r";
        }
        let help = help.replace('\'', "\\'");
        out += &format!("complete -c mpirun{flags} -d '{help}'\n");
    }
    out += "complete -c mpiexec -w mpirun\n";
    out
}
