//! The required version of CRIU, and the commands that install it, for all messages.

/// Older versions fail on newer kernels.
const NEEDED: (u32, u32) = (4, 2);

/// The system's name, its `ID` in os-release(5), the beginning of its `VERSION_ID` (empty for any),
/// and the source.
type CriuInstallation = (&'static str, &'static str, &'static str, InstallSource);

enum InstallSource {
    /// The package has this older version, so CRIU is built from source.
    Built(&'static str),
    Commands(&'static str),
}

const INSTALLATIONS: [CriuInstallation; 4] = [
    ("Debian 12", "debian", "12", InstallSource::Built("3.17")),
    ("Debian 13", "debian", "13", InstallSource::Built("4.1")),
    (
        "Ubuntu",
        "ubuntu",
        "",
        InstallSource::Commands(
            "sudo add-apt-repository ppa:criu/ppa && sudo apt-get install criu",
        ),
    ),
    ("Fedora", "fedora", "", InstallSource::Commands("sudo dnf install criu")),
];

/// Builds version [`NEEDED`] on Debian, and installs it in a directory of every user's PATH.
const BUILD: &str = "sudo apt-get install git python3 build-essential pkg-config libprotobuf-dev libprotobuf-c-dev protobuf-c-compiler \
     protobuf-compiler libnl-3-dev libnet1-dev libcap-dev uuid-dev && git clone --depth 1 --branch v4.2 \
     https://github.com/checkpoint-restore/criu && make -C criu && sudo make -C criu install-criu SBINDIR=/usr/local/bin";

fn line((system, _, _, source): &CriuInstallation) -> String {
    match source {
        InstallSource::Built(has) => {
            format!("\n  {system} (its package is {has}, so build 4.2): {BUILD}")
        }
        InstallSource::Commands(commands) => format!("\n  {system}: {commands}"),
    }
}

pub(super) fn is_new_enough(version: &str) -> bool {
    let mut parts =
        version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= NEEDED
}

/// The commands that install CRIU on this system, as lines after a sentence.
pub(super) fn advice() -> String {
    let here = ["/etc/os-release", "/usr/lib/os-release"]
        .into_iter()
        .find_map(|file| std::fs::read_to_string(file).ok());
    advice_for(&here.unwrap_or_default())
}

/// The line for the system of this os-release(5); all lines for an unknown system.
fn advice_for(os_release: &str) -> String {
    let value = |name: &str| {
        let line =
            os_release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(line.trim_matches(['"', '\'']))
    };
    let (id, version) = (value("ID").unwrap_or_default(), value("VERSION_ID").unwrap_or_default());
    let is_here = |installation: &&CriuInstallation| {
        installation.1 == id && version.starts_with(installation.2)
    };
    let mut lines: String = INSTALLATIONS.iter().filter(is_here).map(line).collect();
    if lines.is_empty() {
        lines = INSTALLATIONS.iter().map(line).collect();
    }
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
        let build = format!(
            "CRIU 4.2 or newer is needed:\n  Debian 12 (its package is 3.17, so build 4.2): {BUILD}"
        );
        assert_eq!(advice_for("NAME=\"Debian GNU/Linux\"\nID=debian\nVERSION_ID=\"12\"\n"), build);
        let text = advice_for("ID=debian\nVERSION_ID=\"13\"\n");
        assert!(
            text.contains(
                "Debian 13 (its package is 4.1, so build 4.2): sudo apt-get install git "
            ),
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
            assert_eq!(advice_for(other).lines().count(), 1 + INSTALLATIONS.len(), "{other}");
        }
    }
}
