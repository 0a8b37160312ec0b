//! Diagnostics: events of `tracing` in the launcher, its agents and the daemons, written as lines
//! to standard error.
//!
//! The environment variable [`VARIABLE`] selects a level for each of the three [`LogTarget`]s. A
//! process is one target, whichever crate an event comes from. An agent and a daemon on another
//! host get their level on their command line, as ssh does not carry the environment.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The environment variable with the levels, such as `launcher=debug,agent=trace,daemon=info`.
pub const VARIABLE: &str = "OXMPI_LOG";

const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// The kind of a process that writes diagnostics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// `mpirun`.
    Launcher,
    /// The process that starts ranks on another host for `mpirun`.
    Agent,
    /// The user's daemon on a node, and the commands that use it, such as `oxmpi boot`.
    Daemon,
}

impl LogTarget {
    const ALL: [LogTarget; 3] = [LogTarget::Launcher, LogTarget::Agent, LogTarget::Daemon];

    fn name(self) -> &'static str {
        match self {
            LogTarget::Launcher => "launcher",
            LogTarget::Agent => "agent",
            LogTarget::Daemon => "daemon",
        }
    }
}

/// A text that selects no levels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is neither a level nor TARGET=LEVEL; a target is one of launcher, agent, daemon, and a level one of off, error, warn, info, \
     debug, trace: write 'debug', or 'launcher=debug,agent=trace'"
)]
pub struct LogLevelError(String);

/// The level of each target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLevels([LevelFilter; 3]);

impl FromStr for LogLevels {
    type Err = LogLevelError;

    /// Reads `LEVEL` (all targets) and `TARGET=LEVEL`, with commas between them. A later word
    /// replaces an earlier one; an empty text switches all off.
    fn from_str(text: &str) -> Result<LogLevels, LogLevelError> {
        let mut levels = LogLevels([LevelFilter::OFF; 3]);
        for word in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
            let wrong = || LogLevelError(word.into());
            match word.split_once('=') {
                None => levels.0 = [level(word).ok_or_else(wrong)?; 3],
                Some((name, value)) => {
                    let is_it = |target: &LogTarget| target.name() == name.trim();
                    let target = LogTarget::ALL.into_iter().find(is_it).ok_or_else(wrong)?;
                    levels.0[target as usize] = level(value.trim()).ok_or_else(wrong)?;
                }
            }
        }
        Ok(levels)
    }
}

impl LogLevels {
    /// The levels of the environment.
    ///
    /// # Errors
    /// The variable has another form; the text names both.
    pub fn from_env() -> Result<LogLevels, String> {
        let value = std::env::var_os(VARIABLE).unwrap_or_default();
        let levels = value.to_string_lossy().parse::<LogLevels>();
        levels.map_err(|error| format!("environment variable {VARIABLE}: {error}"))
    }

    /// The levels with at least `info` for the launcher.
    #[must_use]
    pub fn with_verbose_launcher(mut self) -> LogLevels {
        self.0[0] = self.0[0].max(LevelFilter::INFO);
        self
    }

    /// Makes this process write its events from now on. Only the first call has an effect.
    pub fn begin(self, target: LogTarget) {
        let level = self.0[target as usize];
        if BEGUN.set(self).is_err() || level == LevelFilter::OFF {
            return;
        }
        let line = LogLine { began: Instant::now(), target, host: oxmpi_sys::host::name() };
        let lines = tracing_subscriber::fmt()
            .log_internal_errors(false) // by a macro that panics if standard error is closed
            .with_ansi(false)
            .with_max_level(level)
            .event_format(line)
            .with_writer(|| LineWriter);
        // Fails only if the process has a subscriber already.
        let _ = tracing::subscriber::set_global_default(lines.finish());
    }
}

fn level(word: &str) -> Option<LevelFilter> {
    LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, level)| *level)
}

/// The levels of this process.
static BEGUN: OnceLock<LogLevels> = OnceLock::new();

/// The level for a process of this target that this process starts, as a word of its command line;
/// `None`: it writes no diagnostics.
pub fn word_for(target: LogTarget) -> Option<&'static str> {
    let wanted = BEGUN.get().map_or(LevelFilter::OFF, |levels| levels.0[target as usize]);
    let word = LEVELS.iter().find(|(_, level)| *level == wanted).map(|(name, _)| *name);
    word.filter(|_| wanted != LevelFilter::OFF)
}

/// The form of a line: seconds since the start of the process, level, target, host, event.
struct LogLine {
    began: Instant,
    target: LogTarget,
    host: String,
}

impl<S, N> FormatEvent<S, N> for LogLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (time, level) = (self.began.elapsed().as_secs_f64(), event.metadata().level());
        write!(writer, "{time:.6} {level:<5} {} {}: ", self.target.name(), self.host)?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// The lines that wait for [`HeldLines::take`]; `None`: lines are written at once.
static HELD: Mutex<Option<String>> = Mutex::new(None);

fn held() -> MutexGuard<'static, Option<String>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gets one event at a time, with a line end.
struct LineWriter;

impl std::io::Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        // The texts of errors can have several lines.
        let line = text.trim_end().replace('\n', "\\n") + "\n";
        match &mut *held() {
            Some(lines) => lines.push_str(&line),
            None => oxmpi_sys::stdio::complain(format_args!("{line}")),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// While this exists, lines wait for [`HeldLines::take`]: for a process that must not block on
/// standard error, or that sends its lines to another process. Its end writes the rest.
#[derive(Debug)]
pub struct HeldLines(());

impl HeldLines {
    /// Holds the lines from now on.
    pub fn begin() -> HeldLines {
        held().get_or_insert_default();
        HeldLines(())
    }

    /// The lines so far, with their ends; empty if there are none.
    pub fn take(&self) -> String {
        held().as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Drop for HeldLines {
    fn drop(&mut self) {
        let rest = held().take().unwrap_or_default();
        if !rest.is_empty() {
            oxmpi_sys::stdio::complain(format_args!("{rest}"));
        }
    }
}

/// Shows the name of a message alone: its fields can be long, or secret.
pub struct MessageName<'a, T>(pub &'a T);

impl<T: fmt::Debug> fmt::Display for MessageName<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Takes letters and digits, and refuses all text behind them.
        struct FirstWord(String);
        impl fmt::Write for FirstWord {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                let end = text.find(|c: char| !c.is_alphanumeric());
                self.0.push_str(&text[..end.unwrap_or(text.len())]);
                end.map_or(Ok(()), |_| Err(fmt::Error))
            }
        }
        let mut word = FirstWord(String::new());
        // An error is the end of the word.
        let _ = fmt::write(&mut word, format_args!("{:?}", self.0));
        f.write_str(&word.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(launcher: &str, agent: &str, daemon: &str) -> LogLevels {
        LogLevels([launcher, agent, daemon].map(|word| level(word).unwrap()))
    }

    #[test]
    fn a_level_is_for_all_targets_and_a_later_word_is_stronger() {
        let read = |text: &str| text.parse::<LogLevels>().unwrap();
        assert_eq!(read(""), levels("off", "off", "off"));
        assert_eq!(read("Debug"), levels("debug", "debug", "debug"));
        assert_eq!(
            read("launcher=debug,agent=trace,daemon=info"),
            levels("debug", "trace", "info")
        );
        assert_eq!(read(" warn , agent = trace "), levels("warn", "trace", "warn"));
        assert_eq!(read("agent=trace,warn"), levels("warn", "warn", "warn"));
        assert_eq!(read("agent=info").with_verbose_launcher(), levels("info", "info", "off"));
        assert_eq!(read("launcher=trace").with_verbose_launcher(), read("launcher=trace"));
    }

    #[test]
    fn another_form_is_refused_with_the_word() {
        for (text, word) in [
            ("loud", "'loud'"),
            ("debug,agents=info", "'agents=info'"),
            ("agent=", "'agent='"),
            ("agent=4", "'agent=4'"),
            ("debug,", "''"),
            ("launcher=info=debug", "'launcher=info=debug'"),
        ] {
            let error = text.parse::<LogLevels>().unwrap_err().to_string();
            let (first, rest) = error.split_once(' ').unwrap();
            assert!(first == word && rest.contains("launcher=debug,agent=trace"), "{error}");
        }
    }

    #[test]
    fn a_message_is_shown_without_its_fields() {
        #[derive(Debug)]
        #[allow(dead_code, reason = "its fields are for Debug")]
        enum Message {
            Plain,
            Secret { bytes: [u8; 2] },
            Pair(u8, u8),
        }
        assert_eq!(MessageName(&Message::Plain).to_string(), "Plain");
        assert_eq!(MessageName(&Message::Secret { bytes: [1, 2] }).to_string(), "Secret");
        assert_eq!(MessageName(&Message::Pair(1, 2)).to_string(), "Pair");
    }

    #[test]
    fn held_lines_are_whole_and_an_event_is_one_line() {
        use std::io::Write as _;
        let lines = HeldLines::begin();
        LineWriter.write_all(b"0.1 INFO launcher a: one\nof two\n").unwrap();
        LineWriter.write_all(b"0.2 INFO launcher a: two\n").unwrap();
        assert_eq!(lines.take(), "0.1 INFO launcher a: one\\nof two\n0.2 INFO launcher a: two\n");
        assert_eq!(lines.take(), "");
    }
}
