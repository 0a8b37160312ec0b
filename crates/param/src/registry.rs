//! The one table of parameters, and a set of their values.

use crate::nearest::nearest;
use crate::parse::{ParamError, Unit, number};

/// Who should touch a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Users: it changes what a program can do or how it is allowed to do it.
    User,
    /// People who tune a machine: it changes speed or memory only.
    Tune,
    /// People who work on OxMPI.
    Develop,
}

/// The definition of one parameter.
#[derive(Debug)]
pub struct Param {
    /// The name, unit last.
    pub name: &'static str,
    /// Other names that are understood.
    pub aliases: &'static [&'static str],
    /// What the number counts.
    pub unit: Unit,
    /// The value when nobody says otherwise.
    pub default: u64,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
    /// Whether only powers of two are values (ring sizes: an index is a mask).
    pub power_of_two: bool,
    /// Who should touch it.
    pub level: Level,
    /// What it does, in a sentence or two.
    pub help: &'static str,
}

impl Param {
    /// All parameters, by name.
    pub fn all() -> &'static [Param] {
        &TABLE
    }

    /// The parameter of this name or alias.
    pub fn find(name: &str) -> Option<&'static Param> {
        Param::index(name).map(|i| &TABLE[i])
    }

    fn index(name: &str) -> Option<usize> {
        TABLE.iter().position(|p| p.name == name || p.aliases.contains(&name))
    }

    /// Reads `text` as a value of this parameter.
    ///
    /// # Errors
    /// [`ParamError::Value`] names the text and what would have been accepted.
    pub fn parse(&self, text: &str) -> Result<u64, ParamError> {
        number(text, self.unit)
            .filter(|n| (self.min..=self.max).contains(n))
            .filter(|n| !self.power_of_two || n.is_power_of_two() || (*n == 0 && self.min == 0))
            .ok_or_else(|| ParamError::Value {
                name: self.name,
                value: text.to_string(),
                wanted: self.wanted(),
            })
    }

    /// What [`Param::parse`] accepts, in words.
    pub fn wanted(&self) -> String {
        let what = match self.unit {
            Unit::Choice(words) => return format!("one of {}", words.join(", ")),
            Unit::Bytes => "a number of bytes (suffixes k, m)",
            Unit::Count => "a number",
            Unit::Micros => "a number of microseconds (suffixes ms, s)",
        };
        let power = if self.power_of_two { " and a power of two" } else { "" };
        format!("{what} from {} to {}{power}", self.min, self.max)
    }

    /// A value as a person reads it.
    pub fn show(&self, value: u64) -> String {
        match self.unit {
            Unit::Choice(words) => words.get(value as usize).copied().unwrap_or("?").to_string(),
            _ => value.to_string(),
        }
    }
}

/// Whether long messages may be copied straight between the address spaces of two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleCopy {
    /// If a real probe between the two processes succeeds.
    Auto,
    /// No: through the shared segment always.
    Off,
}

/// The error handler that counts until a program sets another one (MPI-5.0 section 11.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialErrhandler {
    /// MPI_ERRORS_ARE_FATAL.
    Fatal,
    /// MPI_ERRORS_ABORT.
    Abort,
    /// MPI_ERRORS_RETURN.
    Return,
}

/// A value for every parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    values: [u64; TABLE.len()],
}

impl Default for Params {
    fn default() -> Params {
        let mut values = [0; TABLE.len()];
        for (value, param) in values.iter_mut().zip(&TABLE) {
            *value = param.default;
        }
        Params { values }
    }
}

impl Params {
    /// Sets the parameter `name` (or alias) to the value that `text` says.
    ///
    /// # Errors
    /// No such parameter, or no such value.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), ParamError> {
        let index = Param::index(name).ok_or_else(|| ParamError::Unknown {
            name: name.to_string(),
            nearest: nearest(name, TABLE.iter().flat_map(|p| p.aliases.iter().copied().chain([p.name]))),
        })?;
        self.values[index] = TABLE[index].parse(text)?;
        Ok(())
    }

    /// These values with one more set, for tests and examples.
    ///
    /// # Errors
    /// As [`Params::set`].
    pub fn with(mut self, name: &str, text: &str) -> Result<Params, ParamError> {
        self.set(name, text)?;
        Ok(self)
    }

    /// Every parameter with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Param, u64)> + '_ {
        TABLE.iter().zip(self.values)
    }

    /// Whether long messages may be copied between address spaces.
    pub fn single_copy(&self) -> SingleCopy {
        match self.values[Id::single_copy as usize] {
            0 => SingleCopy::Auto,
            _ => SingleCopy::Off,
        }
    }

    /// The error handler of MPI_COMM_WORLD and MPI_COMM_SELF until the program sets another one.
    pub fn initial_errhandler(&self) -> InitialErrhandler {
        match self.values[Id::mpi_initial_errhandler as usize] {
            0 => InitialErrhandler::Fatal,
            1 => InitialErrhandler::Abort,
            _ => InitialErrhandler::Return,
        }
    }
}

/// Makes the table, and a getter of the right type for each number in it.
macro_rules! parameters {
    ($( $name:ident : $get:ident {
        unit: $unit:expr, default: $default:expr, limits: $min:literal ..= $max:expr, power_of_two: $pow:literal,
        aliases: $aliases:expr, level: $level:ident, help: $help:expr $(,)?
    } )*) => {
        #[allow(non_camel_case_types)] // the names of the parameters themselves
        enum Id { $($name),* }

        static TABLE: [Param; [$(Id::$name),*].len()] = [ $( Param {
            name: stringify!($name), aliases: &$aliases, unit: $unit, default: $default, min: $min, max: $max,
            power_of_two: $pow, level: Level::$level, help: $help,
        } ),* ];

        impl Params { $( parameters!(@getter $name, $get, $help); )* }
    };
    (@getter $name:ident, by_hand, $help:expr) => {};
    (@getter $name:ident, $type:ident, $help:expr) => {
        #[doc = $help]
        #[inline]
        pub fn $name(&self) -> $type {
            self.values[Id::$name as usize] as $type
        }
    };
}

parameters! {
    mpi_initial_errhandler: by_hand {
        unit: Unit::Choice(&["mpi_errors_are_fatal", "mpi_errors_abort", "mpi_errors_return"]),
        default: 0, limits: 0..=2, power_of_two: false,
        aliases: ["initial_errhandler"], level: User,
        help: "The error handler of MPI_COMM_WORLD and MPI_COMM_SELF until the program sets another one, and of \
               errors before MPI_Init and after MPI_Finalize.",
    }
    shm_eager_limit_bytes: usize {
        unit: Unit::Bytes, default: 65536, limits: 0..=524288, power_of_two: false,
        aliases: [], level: Tune,
        help: "The longest message that is sent through shared memory before its receive is known to be \
               posted. Longer ones wait for the receiver (rendezvous). What is longer than the data ring takes \
               (half of shm_ring_data_bytes) is sent so only while there is room in the pool.",
    }
    shm_pool_bytes: usize {
        unit: Unit::Bytes, default: 2097152, limits: 0..=1073741824, power_of_two: true,
        aliases: [], level: Tune,
        help: "Bytes of a rank's pool, through which its longer messages go to all other ranks; 0: none. The \
               best size is beyond the private caches of a core. With more ranks than cores a quarter of it is \
               used.",
    }
    shm_pool_from_bytes: usize {
        unit: Unit::Bytes, default: 512, limits: 57..=1073741824, power_of_two: false,
        aliases: [], level: Tune,
        help: "The shortest message that goes through the sender's pool; shorter ones use the data ring.",
    }
    shm_slow_copy_ns_per_kib: u64 {
        unit: Unit::Count, default: 67, limits: 0..=1000000, power_of_two: false,
        aliases: [], level: Tune,
        help: "A copy into the pool that takes more nanoseconds per KiB, and 180 more, is slow: cores that share no cache. \
               The next ones then go past the caches.",
    }
    shm_heap_bytes: u64 {
        unit: Unit::Bytes, default: 1073741824, limits: 0..=1099511627776, power_of_two: false,
        aliases: [], level: Tune,
        help: "How many bytes of MPI_Alloc_mem a rank has in its segment, where receivers copy long messages \
               straight from; 0: none. They take memory only as they are used. What finds no room there is \
               ordinary memory.",
    }
    shm_ring_slots: usize {
        unit: Unit::Count, default: 128, limits: 4..=65536, power_of_two: true,
        aliases: [], level: Tune,
        help: "Slots of 64 bytes in the ring between two ranks: how many small messages may be on their way.",
    }
    shm_ring_data_bytes: usize {
        unit: Unit::Bytes, default: 65536, limits: 32768..=16777216, power_of_two: true,
        aliases: [], level: Tune,
        help: "Bytes of the data ring between two ranks. It carries messages of 57 bytes and more that do not go through \
               the sender's pool (shm_pool_from_bytes), or find no room there.",
    }
    shm_max_rings: usize {
        unit: Unit::Count, default: 16, limits: 0..=1024, power_of_two: false,
        aliases: [], level: Tune,
        help: "Rings a rank grants to its peers at most. The others send through its inbox, which is slower. \
               Memory of a rank grows with it, and the time of a look for messages.",
    }
    shm_ring_after: u32 {
        unit: Unit::Count, default: 2, limits: 0..=1000000, power_of_two: false,
        aliases: [], level: Tune,
        help: "Messages that a peer sends through the inbox before it is granted a ring of its own.",
    }
    shm_inbox_cells: usize {
        unit: Unit::Count, default: 64, limits: 4..=65536, power_of_two: true,
        aliases: [], level: Tune,
        help: "Cells in a rank's inbox, which all peers without a ring of their own share.",
    }
    single_copy: by_hand {
        unit: Unit::Choice(&["auto", "off"]), default: 0, limits: 0..=1, power_of_two: false,
        aliases: ["shm_single_copy"], level: User,
        help: "Whether long messages are copied straight from one process to the other (process_vm_readv). \
               'auto' tries it between each pair and uses shared memory where it is forbidden.",
    }
    single_copy_patience_us: u64 {
        unit: Unit::Micros, default: 10, limits: 0..=1000000000, power_of_two: false,
        aliases: [], level: Tune,
        help: "How long a receiver waits for a part of a long message before it reads one from the sender's \
               memory itself, instead of waiting for the sender to send it.",
    }
    wait_spin_us: u64 {
        unit: Unit::Micros, default: 20, limits: 0..=1000000, power_of_two: false,
        aliases: [], level: Tune,
        help: "How long a waiting rank looks for messages without giving up its core, when there is a core for \
               every rank.",
    }
    wait_yield_us: u64 {
        unit: Unit::Micros, default: 1000, limits: 0..=1000000, power_of_two: false,
        aliases: [], level: Tune,
        help: "How long a waiting rank then looks while it offers its core to others, before it sleeps, when \
               there is a core for every rank.",
    }
    wait_slow_yield_us: u64 {
        unit: Unit::Micros, default: 500, limits: 1..=1000000, power_of_two: false,
        aliases: [], level: Tune,
        help: "With more ranks than cores: an offer of the core that takes longer than this means that a \
               stranger computes there, and waiting ranks sleep at once for a while (wait_sleeping).",
    }
    wait_sleeping: u32 {
        unit: Unit::Count, default: 1000, limits: 0..=1000000000, power_of_two: false,
        aliases: [], level: Tune,
        help: "How many waits sleep at once after a slow offer of the core (wait_slow_yield_us). So many at most: 32 \
               the first time, and twice as many each time that there is another one soon.",
    }
    wait_yields: u32 {
        unit: Unit::Count, default: 32, limits: 0..=1000000, power_of_two: false,
        aliases: [], level: Tune,
        help: "With more ranks than cores: how often a waiting rank offers its core to others before it \
               sleeps.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_parameter_is_well_defined() {
        for (i, p) in Param::all().iter().enumerate() {
            assert!(p.help.len() > 20 && p.help.ends_with('.'), "{} has no help", p.name);
            assert!(!p.help.contains("  "), "{}: help has a run of blanks", p.name);
            assert_eq!(p.parse(&p.show(p.default)), Ok(p.default), "{}: its default", p.name);
            let suffix = match p.unit {
                Unit::Bytes => Some("_bytes"),
                Unit::Micros => Some("_us"),
                _ => None,
            };
            assert!(suffix.is_none_or(|s| p.name.ends_with(s)), "{}: the unit comes last", p.name);
            for other in &Param::all()[..i] {
                assert!(p.name != other.name && !other.aliases.contains(&p.name), "{} twice", p.name);
            }
        }
    }

    #[test]
    fn the_getters_read_their_own_row() {
        let text = |p: &Param| p.show(if p.name == "single_copy" { 1 } else { p.max });
        let mut params = Params::default();
        for p in Param::all() {
            params.set(p.name, &text(p)).unwrap();
        }
        assert_eq!(params.shm_ring_slots(), 65536);
        assert_eq!(params.wait_sleeping(), 1_000_000_000);
        assert_eq!(params.single_copy(), SingleCopy::Off);
        assert!(params.iter().all(|(p, v)| v == p.max));
    }

    #[test]
    fn an_alias_sets_its_parameter() {
        assert_eq!(Params::default().with("shm_single_copy", "OFF").unwrap().single_copy(), SingleCopy::Off);
    }

    #[test]
    fn limits_hold_and_are_told() {
        let e = Params::default().with("shm_eager_limit_bytes", "524289").unwrap_err().to_string();
        assert!(e.contains("'524289'") && e.contains("from 0 to 524288"), "{e}");
        let e = Params::default().with("shm_ring_slots", "100").unwrap_err().to_string();
        assert!(e.contains("power of two"), "{e}");
        let e = Params::default().with("single_copy", "maybe").unwrap_err().to_string();
        assert!(e.contains("one of auto, off"), "{e}");
    }

    proptest! {
        #[test]
        fn no_text_makes_parsing_panic(text in ".*") {
            for p in Param::all() {
                if let Ok(v) = p.parse(&text) {
                    prop_assert!((p.min..=p.max).contains(&v));
                }
            }
            let _ = Params::default().set(&text, &text);
        }
    }
}
