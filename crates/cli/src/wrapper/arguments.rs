//! The wrapper's command line: which arguments are ours, and what is added to the others.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use super::Language;

/// What the user wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The compiler is to be run.
    Run,
    /// No argument at all.
    Nothing,
    Help,
    Version,
    Show(Words),
    /// `-showme:` and something else.
    Unknown(String),
}

/// What to print instead of compiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// The whole command.
    Command,
    /// The compiler.
    Compiler,
    /// Arguments for compiling.
    Compile,
    /// Arguments for linking.
    Link,
    /// Names of directories with headers.
    IncludeDirectories,
    /// Names of directories with libraries.
    LibraryDirectories,
    /// Names of libraries.
    Libraries,
    /// The command for compiling.
    CompileCommand,
    /// The command for linking.
    LinkCommand,
}

/// A command line, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) asked: Asked,
    /// The compiler that an option names.
    pub(super) compiler: Option<OsString>,
    /// Whether mpi.h is to have the removed names.
    pub(super) compat: bool,
    /// Whether mpi.h is to have nothing beyond the binary interface.
    pub(super) strict: bool,
    /// The compiler's arguments.
    args: Vec<OsString>,
}

/// Options of compilers whose value is the next word, which is no file to compile, then.
const WITH_VALUE: &[&str] = &[
    "-o",
    "-x",
    "-I",
    "-L",
    "-D",
    "-U",
    "-l",
    "-T",
    "-u",
    "-z",
    "-e",
    "-A",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-isysroot",
    "--sysroot",
    "--param",
    "-MF",
    "-MT",
    "-MQ",
    "-Xlinker",
    "-Xpreprocessor",
    "-Xassembler",
    "-Xclang",
    "-target",
    "-arch",
    "-aux-info",
    "-dumpbase",
];

/// Options after which nothing is linked.
const NO_LINKING: &[&str] = &["-c", "-E", "-S", "-M", "-MM", "-fsyntax-only"];

impl Request {
    pub(super) fn read(language: Language, args: &[OsString]) -> Request {
        let asked = if args.is_empty() { Asked::Nothing } else { Asked::Run };
        let mut request = Request { asked, compiler: None, compat: false, strict: false, args: Vec::new() };
        let mut is_value = false;
        for arg in args {
            let text = arg.to_str().unwrap_or_default();
            if std::mem::replace(&mut is_value, WITH_VALUE.contains(&text)) {
                request.args.push(arg.clone()); // the compiler's, whatever it looks like
                is_value = false;
            } else if let Some(asked) = shown_by(text) {
                request.asked = asked;
            } else if text == "-mpi-compat" || text == "--mpi-compat" {
                request.compat = true;
            } else if text == "-mpi-abi-strict" || text == "--mpi-abi-strict" {
                request.strict = true;
            } else if let Some(compiler) = arg.as_bytes().strip_prefix(language.option().as_bytes()) {
                request.compiler = Some(OsString::from_vec(compiler.to_vec()));
            } else {
                request.args.push(arg.clone());
            }
        }
        request
    }

    /// The compiler's arguments with ours around them.
    pub(super) fn all(&self, prefix: &Path) -> Vec<OsString> {
        let mut all = self.compile(prefix);
        all.extend(self.args.iter().cloned());
        if self.links() {
            all.extend(self.link(prefix));
        }
        all
    }

    /// Whether an argument chooses when the compiler colours what it says.
    pub(super) fn colours(&self) -> bool {
        self.args.iter().any(|arg| arg.to_str().is_some_and(|arg| arg.contains("diagnostics-color")))
    }

    /// Whether the compiler will link: it is not told to stop before, and has something to link. A compiler that is given
    /// no file (`--version`) must not be told to link.
    fn links(&self) -> bool {
        let mut has_input = false;
        for arg in self.without_values() {
            if NO_LINKING.iter().any(|stop| arg == stop) {
                return false;
            }
            has_input |= arg == "-" || !arg.as_bytes().starts_with(b"-");
        }
        // Who is shown a command without files wants to see all of it.
        has_input || (matches!(self.asked, Asked::Show(_)) && self.args.is_empty())
    }

    /// The arguments without those that are values of an option before them.
    fn without_values(&self) -> impl Iterator<Item = &OsString> {
        let mut is_value = false;
        self.args.iter().filter(move |arg| {
            let text = arg.to_str().unwrap_or_default();
            let was_value = is_value;
            is_value = !was_value && WITH_VALUE.contains(&text);
            !was_value
        })
    }

    /// Whether the program is to be linked without shared libraries.
    pub(super) fn is_static(&self) -> bool {
        self.links() && self.without_values().any(|arg| arg == "-static" || arg == "--static")
    }

    fn compile(&self, prefix: &Path) -> Vec<OsString> {
        let include = prefix.join("include");
        let compat = self.compat.then(|| glued("-I", &include.join("compat")));
        let strict = self.strict.then(|| OsString::from("-DOXMPI_MPI_ABI_STRICT"));
        compat.into_iter().chain([glued("-I", &include)]).chain(strict).collect()
    }

    fn link(&self, prefix: &Path) -> Vec<OsString> {
        let lib = prefix.join("lib");
        // With the newer kind of path, LD_LIBRARY_PATH may still name another library with the same interface.
        vec![
            glued("-L", &lib),
            glued("-Wl,-rpath,", &lib),
            "-Wl,--enable-new-dtags".into(),
            // 'cr self' finds functions of the program by their names.
            "-Wl,--export-dynamic".into(),
            "-lmpi_abi".into(),
        ]
    }
}

/// What an argument of ours asks to be shown.
fn shown_by(text: &str) -> Option<Asked> {
    let word = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
    Some(match word {
        "help" => Asked::Help,
        "show" | "showme" => Asked::Show(Words::Command),
        "showme:command" => Asked::Show(Words::Compiler),
        "showme:compile" => Asked::Show(Words::Compile),
        "showme:link" => Asked::Show(Words::Link),
        "showme:incdirs" => Asked::Show(Words::IncludeDirectories),
        "showme:libdirs" => Asked::Show(Words::LibraryDirectories),
        "showme:libs" => Asked::Show(Words::Libraries),
        "showme:version" => Asked::Version,
        "showme:help" => Asked::Help,
        "compile_info" | "compile-info" | "show_compile_info" | "show-compile-info" => {
            Asked::Show(Words::CompileCommand)
        }
        "link_info" | "link-info" | "show_link_info" | "show-link-info" => Asked::Show(Words::LinkCommand),
        other if other.starts_with("showme") => Asked::Unknown(text.to_string()),
        _ => return None,
    })
}

/// The line to print.
pub(super) fn shown(request: &Request, words: Words, compiler: &[OsString], prefix: &Path) -> String {
    let command = |args: Vec<OsString>| [compiler, &args].concat();
    let words = match words {
        Words::Command => command(request.all(prefix)),
        Words::Compiler => compiler.to_vec(),
        Words::Compile => request.compile(prefix),
        Words::Link => request.link(prefix),
        Words::IncludeDirectories => {
            let options = request.compile(prefix);
            let directories = options.iter().filter_map(|word| word.as_bytes().strip_prefix(b"-I"));
            directories.map(|directory| OsString::from_vec(directory.to_vec())).collect()
        }
        Words::LibraryDirectories => vec![prefix.join("lib").into()],
        Words::Libraries => vec!["mpi_abi".into()],
        Words::CompileCommand => command(request.compile(prefix)),
        Words::LinkCommand => command([request.compile(prefix), request.link(prefix)].concat()),
    };
    let quoted: Vec<String> = words.iter().map(|word| quote(&word.to_string_lossy())).collect();
    quoted.join(" ") + "\n"
}

fn glued(option: &str, path: &Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(<Path as AsRef<OsStr>>::as_ref(path));
    word
}

/// A word as a shell reads it back. CMake, which reads it too, knows double quotes only, and only behind the letters of
/// the option: `-I"/a b"`.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+,./:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    if word.contains(['"', '$', '`', '\\', '!', '\'']) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    let option = ["-I", "-L", "-Wl,"].into_iter().find(|option| word.starts_with(option)).unwrap_or("");
    format!("{option}\"{}\"", &word[option.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(args: &[&str]) -> Request {
        Request::read(Language::C, &args.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn joined(args: &[&str]) -> String {
        let all = request(args).all(Path::new("/p"));
        all.join(OsStr::new(" ")).into_string().unwrap()
    }

    fn show(args: &[&str]) -> String {
        let request = request(args);
        let Asked::Show(words) = request.asked else { panic!("{args:?} shows nothing") };
        shown(&request, words, &["cc".into()], Path::new("/p"))
    }

    const LINK: &str = "-L/p/lib -Wl,-rpath,/p/lib -Wl,--enable-new-dtags -Wl,--export-dynamic -lmpi_abi";

    #[test]
    fn linking_arguments_come_last_and_only_where_linking_is() {
        assert_eq!(joined(&["a.c", "-o", "a"]), format!("-I/p/include a.c -o a {LINK}"));
        assert_eq!(joined(&["-c", "a.c"]), "-I/p/include -c a.c");
        for stop in NO_LINKING {
            assert_eq!(joined(&["a.c", stop]), format!("-I/p/include a.c {stop}"));
        }
        for args in [&["--version"][..], &["-v"], &["-dumpversion"], &["-o", "a"], &["-I", "dir"]] {
            assert_eq!(joined(args), format!("-I/p/include {}", args.join(" ")));
        }
        assert_eq!(joined(&["-x", "c", "-"]), format!("-I/p/include -x c - {LINK}"));
        assert_eq!(joined(&["a.o", "-lm", "-MD"]), format!("-I/p/include a.o -lm -MD {LINK}"));
    }

    #[test]
    fn our_words_are_taken_out_wherever_they_stand_unless_they_belong_to_another() {
        assert_eq!(show(&["a.c", "-show", "-c"]), "cc -I/p/include a.c -c\n");
        assert_eq!(joined(&["-cc=gcc", "a.c", "-c"]), "-I/p/include a.c -c");
        assert_eq!(joined(&["-mpi-compat", "a.c", "-c"]), "-I/p/include/compat -I/p/include a.c -c");
        assert_eq!(joined(&["-mpi-abi-strict", "a.c", "-c"]), "-I/p/include -DOXMPI_MPI_ABI_STRICT a.c -c");
        assert_eq!(joined(&["-o", "-show", "a.c", "-c"]), "-I/p/include -o -show a.c -c");
        assert_eq!(request(&["-Xlinker", "--help", "a.c"]).asked, Asked::Run);
        assert_eq!(
            joined(&["-cxx=g++", "a.c", "-c"]),
            "-I/p/include -cxx=g++ a.c -c",
            "is the compiler's for mpicc"
        );
    }

    #[test]
    fn a_program_without_shared_libraries_is_known_where_it_is_linked() {
        assert!(request(&["a.c", "-static"]).is_static());
        assert!(
            ![&["a.c"][..], &["-static", "-c", "a.c"], &["-o", "-static", "a.c"]]
                .map(request)
                .iter()
                .any(Request::is_static)
        );
    }

    #[test]
    fn what_can_be_shown() {
        assert_eq!(show(&["-showme"]), format!("cc -I/p/include {LINK}\n"));
        assert_eq!(show(&["--showme:compile"]), "-I/p/include\n");
        assert_eq!(show(&["-showme:link"]), format!("{LINK}\n"));
        assert_eq!(show(&["-showme:incdirs"]), "/p/include\n");
        assert_eq!(show(&["-showme:incdirs", "-mpi-compat"]), "/p/include/compat /p/include\n");
        assert_eq!(show(&["-showme:compile", "-mpi-abi-strict"]), "-I/p/include -DOXMPI_MPI_ABI_STRICT\n");
        assert_eq!(show(&["-showme:incdirs", "-mpi-abi-strict"]), "/p/include\n");
        assert_eq!(show(&["-showme:libdirs"]), "/p/lib\n");
        assert_eq!(show(&["-showme:libs"]), "mpi_abi\n");
        assert_eq!(show(&["-showme:command"]), "cc\n");
        assert_eq!(show(&["-compile-info"]), "cc -I/p/include\n");
        assert_eq!(show(&["-link_info"]), format!("cc -I/p/include {LINK}\n"));
        assert_eq!(show(&["-show-compile-info"]), show(&["-compile_info"]));
        assert_eq!(show(&["-show-link-info"]), show(&["-link_info"]));
        assert_eq!(request(&["-showme:version"]).asked, Asked::Version);
        assert_eq!(request(&["-showme:wrong"]).asked, Asked::Unknown("-showme:wrong".into()));
        assert_eq!(request(&[]).asked, Asked::Nothing);
    }

    #[test]
    fn a_shell_reads_quoted_words_back() {
        assert_eq!(quote("-I/a b"), "-I\"/a b\"");
        assert_eq!(quote("-Wl,-rpath,/a b"), "-Wl,\"-rpath,/a b\"");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote("a$b"), "'a$b'");
        assert_eq!(quote("-O2"), "-O2");
        assert_eq!(quote(""), "\"\"");
    }
}
