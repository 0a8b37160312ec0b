//! `mpicc`: the C compiler with what it needs to find this installation. It adds arguments and runs the compiler in
//! its own place.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::prefix;

const HELP: &str = "\
mpicc: compile C programs that use MPI

Runs the C compiler ($OXMPI_CC, or cc) with your arguments and those that find mpi.h and libmpi_abi.so.

  -show, -showme      print the command instead of running it
  -showme:compile     print what compiling needs
  -showme:link        print what linking needs
All other arguments are the compiler's.
";

pub(crate) fn main(args: &[OsString]) -> i32 {
    let Some(prefix) = prefix::find() else {
        eprintln!(
            "mpicc: this program is not in PREFIX/bin, so mpi.h cannot be found; install with 'cargo xtask install --prefix DIR'"
        );
        return 1;
    };
    let compiler = std::env::var_os("OXMPI_CC").filter(|cc| !cc.is_empty()).unwrap_or_else(|| "cc".into());
    let mut command: Vec<OsString> =
        compiler.to_string_lossy().split_whitespace().map(OsString::from).collect();
    match args.first().and_then(|a| a.to_str()) {
        None => {
            eprintln!("mpicc: no input files ('mpicc --help' explains)");
            return 1;
        }
        Some("--help" | "-h") => {
            crate::say(HELP);
            return 0;
        }
        Some("-showme:compile") => print_command(&compile_arguments(&prefix)),
        Some("-showme:link") => print_command(&link_arguments(&prefix)),
        Some("-show" | "-showme" | "--showme") => {
            command.extend(arguments(&prefix, &args[1..], true));
            print_command(&command);
        }
        Some(_) => {
            command.extend(arguments(&prefix, args, false));
            let error = Command::new(&command[0]).args(&command[1..]).exec();
            eprintln!(
                "mpicc: cannot run the compiler '{}': {error}; set OXMPI_CC to another one",
                command[0].display()
            );
            return 127;
        }
    }
    0
}

/// The user's arguments with ours around them. A compiler that is given no file (`--version`) must not be told to link;
/// who only wants to be shown the command wants to see all of it.
fn arguments(prefix: &Path, args: &[OsString], show: bool) -> Vec<OsString> {
    let mut all = compile_arguments(prefix);
    all.extend(args.iter().cloned());
    let only_compiles = args.iter().any(|a| a == "-c" || a == "-E" || a == "-S" || a == "-M" || a == "-MM");
    let has_input = args.iter().any(|a| !a.as_encoded_bytes().starts_with(b"-"));
    if (has_input || show) && !only_compiles {
        all.extend(link_arguments(prefix));
    }
    all
}

fn compile_arguments(prefix: &Path) -> Vec<OsString> {
    vec!["-I".into(), prefix.join("include").into()]
}

fn link_arguments(prefix: &Path) -> Vec<OsString> {
    let lib = prefix.join("lib");
    let mut rpath = OsString::from("-Wl,-rpath,");
    rpath.push(&lib);
    vec!["-L".into(), lib.into(), rpath, "-lmpi_abi".into()]
}

/// Prints words so that a shell reads them back.
fn print_command(words: &[OsString]) {
    let quoted: Vec<String> = words.iter().map(|w| quote(&w.to_string_lossy())).collect();
    crate::say(&(quoted.join(" ") + "\n"));
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+,./:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(args: &[&str]) -> String {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        arguments(Path::new("/p"), &args, false)
            .iter()
            .map(|a| a.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn linking_arguments_come_last_and_only_where_linking_is() {
        assert_eq!(
            joined(&["a.c", "-o", "a"]),
            "-I /p/include a.c -o a -L /p/lib -Wl,-rpath,/p/lib -lmpi_abi"
        );
        assert_eq!(joined(&["-c", "a.c"]), "-I /p/include -c a.c");
        assert_eq!(joined(&["--version"]), "-I /p/include --version");
        let shown = arguments(Path::new("/p"), &[], true);
        assert_eq!(shown.last().and_then(|word| word.to_str()), Some("-lmpi_abi"));
    }

    #[test]
    fn a_shell_reads_quoted_words_back() {
        assert_eq!(quote("-I/a b"), "'-I/a b'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote("-O2"), "-O2");
    }
}
