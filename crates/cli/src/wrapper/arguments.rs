//! The wrapper's command line: its own arguments, and the arguments that it adds to the compiler's.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::Language;
use super::modules::{CompiledModules, MODULE_LIBRARY};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WrapperAction {
    Run,
    Nothing,
    Help,
    Version,
    Show(ShownWords),
    Unknown(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShownWords {
    Command,
    Compiler,
    Compile,
    Link,
    IncludeDirectories,
    LibraryDirectories,
    Libraries,
    CompileCommand,
    LinkCommand,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WrapperRequest {
    pub(super) language: Language,
    pub(super) action: WrapperAction,
    /// The Fortran modules for this compiler.
    pub(super) modules: Option<CompiledModules>,
    pub(super) compiler: Option<OsString>,
    /// Whether mpi.h also declares the removed names.
    pub(super) compat: bool,
    /// Whether mpi.h declares only the binary interface.
    pub(super) strict: bool,
    args: Vec<OsString>,
}

/// Options of compilers whose value is the next argument, which is then no input file.
#[rustfmt::skip] // a table
const WITH_VALUE: &[&str] = &[
    "-o", "-x", "-I", "-L", "-D", "-U", "-l", "-T", "-u", "-z", "-e", "-A", "-include", "-imacros",
    "-isystem", "-iquote", "-idirafter", "-iprefix", "-iwithprefix", "-isysroot", "--sysroot",
    "--param", "-MF", "-MT", "-MQ", "-Xlinker", "-Xpreprocessor", "-Xassembler", "-Xclang",
    "-target", "-arch", "-aux-info", "-dumpbase", "-J", "-module",
];

const NO_LINKING: &[&str] = &["-c", "-E", "-S", "-M", "-MM", "-fsyntax-only"];

impl WrapperRequest {
    pub(super) fn read(language: Language, args: &[OsString]) -> WrapperRequest {
        let action = if args.is_empty() { WrapperAction::Nothing } else { WrapperAction::Run };
        let mut request = WrapperRequest {
            language,
            action,
            modules: None,
            compiler: None,
            compat: false,
            strict: false,
            args: Vec::new(),
        };
        let mut is_value = false;
        for arg in args {
            let text = arg.to_str().unwrap_or_default();
            if std::mem::replace(&mut is_value, WITH_VALUE.contains(&text)) {
                request.args.push(arg.clone()); // a value of the compiler's option
                is_value = false;
            } else if let Some(action) = shown_by(text) {
                request.action = action;
            } else if language != Language::Fortran && is_for_header(text) {
                request.compat |= text.ends_with("-mpi-compat");
                request.strict |= text.ends_with("-mpi-abi-strict");
            } else if let Some(compiler) = arg.as_bytes().strip_prefix(language.option().as_bytes())
            {
                request.compiler = Some(OsString::from_vec(compiler.to_vec()));
            } else {
                request.args.push(arg.clone());
            }
        }
        request
    }

    /// The compiler's arguments with the wrapper's around them.
    pub(super) fn all(&self, prefix: &Path) -> Vec<OsString> {
        let mut all = self.compile(prefix);
        all.extend(self.args.iter().cloned());
        if self.links() {
            all.extend(self.link(prefix));
        }
        all
    }

    /// Whether an argument already decides when the compiler colours its messages.
    pub(super) fn colours(&self) -> bool {
        self.args
            .iter()
            .any(|arg| arg.to_str().is_some_and(|arg| arg.contains("diagnostics-color")))
    }

    /// Whether the compiler links: no option stops it before, and it has an input file. With
    /// arguments of the linker but no input file (`--version`), compilers would try to link.
    fn links(&self) -> bool {
        let stops = |arg: &OsString| NO_LINKING.iter().any(|stop| arg == stop);
        if self.without_values().any(stops) {
            return false;
        }
        // A command that is only shown has all arguments, even without input files.
        self.has_input() || (matches!(self.action, WrapperAction::Show(_)) && self.args.is_empty())
    }

    fn has_input(&self) -> bool {
        self.without_values().any(|arg| arg == "-" || !arg.as_bytes().starts_with(b"-"))
    }

    /// Whether the compiler, or a program that reads the shown words, needs the Fortran modules.
    pub(super) fn needs_modules(&self) -> bool {
        match &self.action {
            WrapperAction::Run => self.has_input(),
            WrapperAction::Show(words) => {
                !matches!(words, ShownWords::Compiler | ShownWords::Libraries)
            }
            _ => false,
        }
    }

    /// The compiler's own arguments.
    pub(super) fn args(&self) -> &[OsString] {
        &self.args
    }

    fn without_values(&self) -> impl Iterator<Item = &OsString> {
        let mut is_value = false;
        self.args.iter().filter(move |arg| {
            let text = arg.to_str().unwrap_or_default();
            let was_value = is_value;
            is_value = !was_value && WITH_VALUE.contains(&text);
            !was_value
        })
    }

    pub(super) fn is_static(&self) -> bool {
        self.links() && self.without_values().any(|arg| arg == "-static" || arg == "--static")
    }

    fn compile(&self, prefix: &Path) -> Vec<OsString> {
        let include = prefix.join("include");
        if self.language == Language::Fortran {
            let modules = self.modules.iter().map(|found| glued("-I", &found.directory));
            let options = self.modules.iter().flat_map(|found| found.options.iter().cloned());
            return modules.chain([glued("-I", &include)]).chain(options).collect();
        }
        let compat = self.compat.then(|| glued("-I", &include.join("compat")));
        let strict = self.strict.then(|| OsString::from("-DOXMPI_MPI_ABI_STRICT"));
        compat.into_iter().chain([glued("-I", &include)]).chain(strict).collect()
    }

    /// The directories of the libraries: that of the modules has one too.
    fn library_directories(&self, prefix: &Path) -> Vec<PathBuf> {
        let modules = self.modules.iter().map(|found| found.directory.clone());
        modules.chain([prefix.join("lib")]).collect()
    }

    fn link(&self, prefix: &Path) -> Vec<OsString> {
        let directories = self.library_directories(prefix);
        let mut words: Vec<_> =
            directories.iter().map(|directory| glued("-L", directory)).collect();
        words.extend(run_path(&prefix.join("lib")));
        words.extend([
            // With DT_RUNPATH, LD_LIBRARY_PATH can still name another library with the same
            // interface.
            "-Wl,--enable-new-dtags".into(),
            // 'cr self' finds functions of the program by their names.
            "-Wl,--export-dynamic".into(),
        ]);
        words.extend(self.libraries().iter().map(|name| glued("-l", Path::new(name))));
        words
    }

    fn libraries(&self) -> &'static [&'static str] {
        match self.language {
            Language::Fortran => &[MODULE_LIBRARY, "mpifort_oxmpi", "mpi_abi"],
            Language::C | Language::Cxx => &["mpi_abi"],
        }
    }
}

/// Options for `mpi.h`.
fn is_for_header(text: &str) -> bool {
    ["-mpi-compat", "--mpi-compat", "-mpi-abi-strict", "--mpi-abi-strict"].contains(&text)
}

fn shown_by(text: &str) -> Option<WrapperAction> {
    // Build systems know a compiler by the text of this option.
    if text == "--help" {
        return None;
    }
    let word = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
    Some(match word {
        "help" => WrapperAction::Help,
        "show" | "showme" => WrapperAction::Show(ShownWords::Command),
        "showme:command" => WrapperAction::Show(ShownWords::Compiler),
        "showme:compile" => WrapperAction::Show(ShownWords::Compile),
        "showme:link" => WrapperAction::Show(ShownWords::Link),
        "showme:incdirs" => WrapperAction::Show(ShownWords::IncludeDirectories),
        "showme:libdirs" => WrapperAction::Show(ShownWords::LibraryDirectories),
        "showme:libs" => WrapperAction::Show(ShownWords::Libraries),
        "showme:version" => WrapperAction::Version,
        "showme:help" => WrapperAction::Help,
        "compile_info" | "compile-info" | "show_compile_info" | "show-compile-info" => {
            WrapperAction::Show(ShownWords::CompileCommand)
        }
        "link_info" | "link-info" | "show_link_info" | "show-link-info" => {
            WrapperAction::Show(ShownWords::LinkCommand)
        }
        other if other.starts_with("showme") => WrapperAction::Unknown(text.to_string()),
        _ => return None,
    })
}

pub(super) fn shown(
    request: &WrapperRequest,
    words: ShownWords,
    compiler: &[OsString],
    prefix: &Path,
) -> String {
    let command = |args: Vec<OsString>| [compiler, &args].concat();
    let words = match words {
        ShownWords::Command => command(request.all(prefix)),
        ShownWords::Compiler => compiler.to_vec(),
        ShownWords::Compile => request.compile(prefix),
        ShownWords::Link => request.link(prefix),
        ShownWords::IncludeDirectories => {
            let options = request.compile(prefix);
            let directories = options.iter().filter_map(|word| word.as_bytes().strip_prefix(b"-I"));
            directories.map(|directory| OsString::from_vec(directory.to_vec())).collect()
        }
        ShownWords::LibraryDirectories => {
            request.library_directories(prefix).into_iter().map(OsString::from).collect()
        }
        ShownWords::Libraries => request.libraries().iter().map(OsString::from).collect(),
        ShownWords::CompileCommand => command(request.compile(prefix)),
        ShownWords::LinkCommand => {
            command([request.compile(prefix), request.link(prefix)].concat())
        }
    };
    let quoted: Vec<String> = words.iter().map(|word| quote(&word.to_string_lossy())).collect();
    quoted.join(" ") + "\n"
}

/// The linker's arguments for a directory that programs search at run time.
fn run_path(directory: &Path) -> Vec<OsString> {
    // Behind -Wl a comma ends an argument.
    if directory.as_os_str().as_bytes().contains(&b',') {
        return ["-Xlinker".into(), "-rpath".into(), "-Xlinker".into(), directory.into()].into();
    }
    vec![glued("-Wl,-rpath,", directory)]
}

fn glued(option: &str, path: &Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(<Path as AsRef<OsStr>>::as_ref(path));
    word
}

/// Quotes a word for a shell. CMake, which also reads the words, accepts only double quotes, and
/// only behind the letters of the option: `-I"/a b"`.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+,./:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    if word.contains(['"', '$', '`', '\\', '!', '\'']) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    let option =
        ["-I", "-L", "-Wl,"].into_iter().find(|option| word.starts_with(option)).unwrap_or("");
    format!("{option}\"{}\"", &word[option.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(args: &[&str]) -> WrapperRequest {
        WrapperRequest::read(Language::C, &args.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn joined(args: &[&str]) -> String {
        let all = request(args).all(Path::new("/p"));
        all.join(OsStr::new(" ")).into_string().unwrap()
    }

    fn show(args: &[&str]) -> String {
        let request = request(args);
        let WrapperAction::Show(words) = request.action else { panic!("{args:?} shows nothing") };
        shown(&request, words, &["cc".into()], Path::new("/p"))
    }

    const LINK: &str =
        "-L/p/lib -Wl,-rpath,/p/lib -Wl,--enable-new-dtags -Wl,--export-dynamic -lmpi_abi";

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
    fn a_prefix_may_have_a_comma() {
        let all = request(&["a.c"]).all(Path::new("/p,q"));
        let all = all.join(OsStr::new(" ")).into_string().unwrap();
        let link = "-L/p,q/lib -Xlinker -rpath -Xlinker /p,q/lib -Wl,--enable-new-dtags \
                    -Wl,--export-dynamic -lmpi_abi";
        assert_eq!(all, format!("-I/p,q/include a.c {link}"));
    }

    #[test]
    fn fortran_has_its_modules_and_its_library() {
        let args = ["-fc=ifx".into(), "a.f90".into()];
        let mut request = WrapperRequest::read(Language::Fortran, &args);
        assert!(request.needs_modules());
        let options = vec!["-f".into()];
        request.modules = Some(CompiledModules { directory: "/m".into(), options });
        let all = request.all(Path::new("/p")).join(OsStr::new(" ")).into_string().unwrap();
        let libraries = "-lmpifort_oxmpi_modules -lmpifort_oxmpi -lmpi_abi";
        let link = LINK.replace("-lmpi_abi", libraries);
        assert_eq!(all, format!("-I/m -I/p/include -f a.f90 -L/m {link}"));
        assert_eq!(request.compiler, Some("ifx".into()));
        for arg in ["--version", "-showme:libs", "-showme:command", "-help"] {
            let request = WrapperRequest::read(Language::Fortran, &[arg.into()]);
            assert!(!request.needs_modules(), "{arg}");
        }
    }

    #[test]
    fn wrapper_options_are_removed_unless_they_are_values() {
        assert_eq!(show(&["a.c", "-show", "-c"]), "cc -I/p/include a.c -c\n");
        assert_eq!(joined(&["-cc=gcc", "a.c", "-c"]), "-I/p/include a.c -c");
        assert_eq!(
            joined(&["-mpi-compat", "a.c", "-c"]),
            "-I/p/include/compat -I/p/include a.c -c"
        );
        assert_eq!(
            joined(&["-mpi-abi-strict", "a.c", "-c"]),
            "-I/p/include -DOXMPI_MPI_ABI_STRICT a.c -c"
        );
        assert_eq!(joined(&["-o", "-show", "a.c", "-c"]), "-I/p/include -o -show a.c -c");
        assert_eq!(request(&["-Xlinker", "-help", "a.c"]).action, WrapperAction::Run);
        assert_eq!(request(&["--help"]).action, WrapperAction::Run);
        assert_eq!(request(&["-help"]).action, WrapperAction::Help);
        assert_eq!(
            joined(&["-cxx=g++", "a.c", "-c"]),
            "-I/p/include -cxx=g++ a.c -c",
            "the option of mpicxx belongs to the compiler in mpicc"
        );
    }

    #[test]
    fn static_linking_is_detected_where_linking_is() {
        assert!(request(&["a.c", "-static"]).is_static());
        assert!(
            ![&["a.c"][..], &["-static", "-c", "a.c"], &["-o", "-static", "a.c"]]
                .map(request)
                .iter()
                .any(WrapperRequest::is_static)
        );
    }

    #[test]
    fn show_options_print_their_words() {
        assert_eq!(show(&["-showme"]), format!("cc -I/p/include {LINK}\n"));
        assert_eq!(show(&["--showme:compile"]), "-I/p/include\n");
        assert_eq!(show(&["-showme:link"]), format!("{LINK}\n"));
        assert_eq!(show(&["-showme:incdirs"]), "/p/include\n");
        assert_eq!(show(&["-showme:incdirs", "-mpi-compat"]), "/p/include/compat /p/include\n");
        assert_eq!(
            show(&["-showme:compile", "-mpi-abi-strict"]),
            "-I/p/include -DOXMPI_MPI_ABI_STRICT\n"
        );
        assert_eq!(show(&["-showme:incdirs", "-mpi-abi-strict"]), "/p/include\n");
        assert_eq!(show(&["-showme:libdirs"]), "/p/lib\n");
        assert_eq!(show(&["-showme:libs"]), "mpi_abi\n");
        assert_eq!(show(&["-showme:command"]), "cc\n");
        assert_eq!(show(&["-compile-info"]), "cc -I/p/include\n");
        assert_eq!(show(&["-link_info"]), format!("cc -I/p/include {LINK}\n"));
        assert_eq!(show(&["-show-compile-info"]), show(&["-compile_info"]));
        assert_eq!(show(&["-show-link-info"]), show(&["-link_info"]));
        assert_eq!(request(&["-showme:version"]).action, WrapperAction::Version);
        assert_eq!(
            request(&["-showme:wrong"]).action,
            WrapperAction::Unknown("-showme:wrong".into())
        );
        assert_eq!(request(&[]).action, WrapperAction::Nothing);
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
