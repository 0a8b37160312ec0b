//! Which CRIU is needed, and how it is had: the one table of this for all messages.

/// The oldest version that is used: older ones fail on newer kernels.
const NEEDED: (u32, u32) = (4, 2);

/// How CRIU is had on a system.
struct Way {
    /// The system, for people.
    system: &'static str,
    /// `ID` in its os-release(5).
    id: &'static str,
    /// How `VERSION_ID` begins there; empty: any.
    version: &'static str,
    /// What to type, and why.
    how: Source,
}

/// Where CRIU comes from.
enum Source {
    /// Its packages are older, of this version: it is built.
    Built(&'static str),
    /// By these commands.
    Commands(&'static str),
}

const WAYS: [Way; 4] = [
    Way { system: "Debian 12", id: "debian", version: "12", how: Source::Built("3.17") },
    Way { system: "Debian 13", id: "debian", version: "13", how: Source::Built("4.1") },
    Way {
        system: "Ubuntu",
        id: "ubuntu",
        version: "",
        how: Source::Commands("sudo add-apt-repository ppa:criu/ppa && sudo apt-get install criu"),
    },
    Way { system: "Fedora", id: "fedora", version: "", how: Source::Commands("sudo dnf install criu") },
];

/// Builds version [`NEEDED`] on Debian, and installs it where each user has it in PATH.
const BUILD: &str = "sudo apt-get install git python3 build-essential pkg-config libprotobuf-dev libprotobuf-c-dev protobuf-c-compiler \
     protobuf-compiler libnl-3-dev libnet1-dev libcap-dev uuid-dev && git clone --depth 1 --branch v4.2 \
     https://github.com/checkpoint-restore/criu && make -C criu && sudo make -C criu install-criu SBINDIR=/usr/local/bin";

impl Way {
    fn text(&self) -> String {
        match self.how {
            Source::Built(has) => format!("{} (its package is {has}, so build 4.2): {BUILD}", self.system),
            Source::Commands(commands) => format!("{}: {commands}", self.system),
        }
    }
}

/// Whether a version is new enough.
pub(super) fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= NEEDED
}

/// How CRIU is had on this system, in lines behind a sentence.
pub(super) fn advice() -> String {
    let here = ["/etc/os-release", "/usr/lib/os-release"]
        .into_iter()
        .find_map(|file| std::fs::read_to_string(file).ok());
    advice_for(&here.unwrap_or_default())
}

/// The same for the system with this os-release(5): the line of the system, or all lines if it is none of them.
fn advice_for(os_release: &str) -> String {
    let value = |name: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(line.trim_matches(['"', '\'']))
    };
    let (id, version) = (value("ID").unwrap_or_default(), value("VERSION_ID").unwrap_or_default());
    let is_here = |way: &&Way| way.id == id && version.starts_with(way.version);
    let mut ways: Vec<&Way> = WAYS.iter().filter(is_here).collect();
    if ways.is_empty() {
        ways = WAYS.iter().collect();
    }
    let lines: String = ways.iter().map(|way| format!("\n  {}", way.text())).collect();
    format!("CRIU {}.{} or newer is needed:{lines}", NEEDED.0, NEEDED.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (version, is_new) in [
            ("4.2", true),
            ("4.2.1", true),
            ("4.10", true),
            ("5.0-rc1", true),
            ("4.1.1", false),
            ("3.17.1", false),
            ("4", false),
            ("", false),
        ] {
            assert_eq!(is_new_enough(version), is_new, "{version}");
        }
    }

    #[test]
    fn each_system_has_its_line_and_another_one_all_of_them() {
        let build =
            format!("CRIU 4.2 or newer is needed:\n  Debian 12 (its package is 3.17, so build 4.2): {BUILD}");
        assert_eq!(advice_for("NAME=\"Debian GNU/Linux\"\nID=debian\nVERSION_ID=\"12\"\n"), build);
        let text = advice_for("ID=debian\nVERSION_ID=\"13\"\n");
        assert!(
            text.contains("Debian 13 (its package is 4.1, so build 4.2): sudo apt-get install git "),
            "{text}"
        );
        assert!(text.contains(" --branch v4.2 ") && !text.contains("Ubuntu"), "{text}");
        assert_eq!(
            advice_for("ID=ubuntu\nVERSION_ID=\"24.04\"\n"),
            "CRIU 4.2 or newer is needed:\n  Ubuntu: sudo add-apt-repository ppa:criu/ppa && sudo apt-get install criu"
        );
        assert_eq!(
            advice_for("ID='fedora'\nVERSION_ID=43\n"),
            "CRIU 4.2 or newer is needed:\n  Fedora: sudo dnf install criu"
        );
        for other in ["", "ID=arch\n", "ID=debian\nVERSION_ID=\"11\"\n"] {
            assert_eq!(advice_for(other).lines().count(), 1 + WAYS.len(), "{other}");
        }
    }
}
