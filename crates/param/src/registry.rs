//! The table of parameters, and a set of their values.
//!
//! The table has the rows of this file, behind the row `rpi` the rows of the linked transports
//! ([`Module::params`]), and at the end the rows of the tuned collectives.

use crate::choices::{Accelerator, Encrypt, InitialErrhandler, SingleCopy};
use crate::definition::{ChangeRule, Level, Param, Value};
use crate::module::Module;
use crate::parse::{ParamError, Unit};
use crate::source::Source;
use crate::tuned;
use std::sync::LazyLock;

/// The values of all parameters with their sources. Only set parameters take memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params {
    set: Vec<SetParam>,
}

#[derive(Clone, Debug)]
struct SetParam {
    param: &'static Param,
    value: Value,
    source: Source,
}

impl PartialEq for SetParam {
    fn eq(&self, other: &SetParam) -> bool {
        let SetParam { param, value, source } = self;
        param.name == other.param.name && *value == other.value && *source == other.source
    }
}

impl Eq for SetParam {}

impl Params {
    /// Sets the parameter `name` (or alias) to the value in `text`.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), ParamError> {
        self.put(name, text, || Source::Program)
    }

    fn put(
        &mut self,
        name: &str,
        text: &str,
        source: impl FnOnce() -> Source,
    ) -> Result<(), ParamError> {
        let param = Param::find(name).ok_or_else(|| Param::unknown(name))?;
        let set = SetParam { param, value: param.parse(text)?, source: source() };
        match self.place(param) {
            Ok(at) => self.set[at] = set,
            Err(at) => self.set.insert(at, set),
        }
        Ok(())
    }

    /// [`Params::set`] with a source, which errors name ([`ParamError::At`]).
    pub fn set_from(&mut self, name: &str, text: &str, source: Source) -> Result<(), ParamError> {
        let set = self.put(name, text, || source.clone());
        set.map_err(|error| ParamError::At { from: source, error: Box::new(error) })
    }

    /// These values with one more set.
    pub fn with(mut self, name: &str, text: &str) -> Result<Params, ParamError> {
        self.set(name, text)?;
        Ok(self)
    }

    /// Every parameter with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Param, Value)> + '_ {
        TABLE.iter().map(|param| (*param, self.value(param)))
    }

    /// The source of a parameter's value.
    pub fn source(&self, param: &Param) -> &Source {
        self.at(param).map_or(&Source::Default, |set| &set.source)
    }

    /// Whether no source has set the parameter.
    pub fn is_default(&self, param: &Param) -> bool {
        *self.source(param) == Source::Default
    }

    /// The value of a parameter.
    pub fn value(&self, param: &Param) -> Value {
        self.at(param).map_or_else(|| param.default_value(), |set| set.value.clone())
    }

    /// The value of a number, a choice or a switch.
    pub fn number(&self, param: &Param) -> i64 {
        match self.at(param).map(|set| &set.value) {
            Some(Value::Number(n)) => *n,
            Some(Value::Text(_)) => 0, // several words of a set: see Params::words
            None => param.default,
        }
    }

    /// The words of a choice or a set; empty for the default.
    pub fn words(&self, param: &Param) -> Vec<&'static str> {
        let known = |name: &str| param.words().iter().copied().find(|word| *word == name);
        match self.at(param).map(|set| &set.value) {
            Some(Value::Number(place)) => usize::try_from(*place)
                .ok()
                .and_then(|at| param.words().get(at))
                .copied()
                .into_iter()
                .collect(),
            Some(Value::Text(names)) => names.split(',').filter_map(known).collect(),
            None => Vec::new(),
        }
    }

    /// The value of a parameter whose limits exclude negative numbers.
    pub fn count(&self, param: &Param) -> usize {
        usize::try_from(self.number(param)).unwrap_or(0)
    }

    /// The value of a switch.
    pub fn is_on(&self, param: &Param) -> bool {
        self.number(param) != 0
    }

    /// The value of a text parameter.
    pub fn text<'p>(&'p self, param: &Param) -> &'p str {
        match (self.at(param).map(|set| &set.value), param.unit) {
            (Some(Value::Text(text)), _) => text,
            (None, Unit::Text { default }) => default,
            _ => "",
        }
    }

    fn place(&self, param: &Param) -> Result<usize, usize> {
        self.set.binary_search_by_key(&param.name, |set| set.param.name)
    }

    fn at(&self, param: &Param) -> Option<&SetParam> {
        self.place(param).ok().map(|at| &self.set[at])
    }

    fn number_of(&self, id: Id) -> i64 {
        self.number(&OWN[id as usize])
    }

    fn text_of(&self, id: Id) -> &str {
        self.text(&OWN[id as usize])
    }

    /// Whether long messages may be copied between address spaces.
    pub fn single_copy(&self) -> SingleCopy {
        match self.number_of(Id::single_copy) {
            0 => SingleCopy::Auto,
            1 => SingleCopy::Off,
            _ => SingleCopy::On,
        }
    }

    /// The module for checkpoints that `cr` names; of several the one with the highest priority.
    pub fn cr(&self) -> Option<&'static str> {
        self.cr_names().first().copied()
    }

    /// The modules for checkpoints that `cr` names, by descending priority.
    pub fn cr_names(&self) -> Vec<&'static str> {
        let named = self.words(&OWN[Id::cr as usize]);
        ["blcr", "self"].into_iter().filter(|name| named.contains(name)).collect()
    }

    /// The program's functions that save its state, restore it and continue, each with its
    /// parameter. The error is a text for users: a function has no name.
    pub fn cr_self_functions(&self) -> Result<[(String, &'static str); 3], String> {
        let prefix = self.cr_self_user_prefix();
        let name = |own: &str, parameter: &'static str, end: &str| match (own, prefix) {
            ("", "") => Err(format!(
                "symbol lookup failed: there is no name for the function that is to be called ({parameter}); name all three by \
                 'cr_self_user_prefix PREFIX' (PREFIX_checkpoint, PREFIX_restart, PREFIX_continue)"
            )),
            ("", prefix) => Ok((format!("{prefix}_{end}"), "cr_self_user_prefix")),
            (own, _) => Ok((own.to_string(), parameter)),
        };
        Ok([
            name(self.cr_self_user_checkpoint(), "cr_self_user_checkpoint", "checkpoint")?,
            name(self.cr_self_user_restart(), "cr_self_user_restart", "restart")?,
            name(self.cr_self_user_continue(), "cr_self_user_continue", "continue")?,
        ])
    }

    /// Whether `cr` disables checkpoints.
    pub fn cr_is_off(&self) -> bool {
        self.number_of(Id::cr) == 1
    }

    /// The treatment of changed files at a restart: a word of the parameter.
    pub fn cr_files(&self) -> &'static str {
        match self.number_of(Id::cr_files) {
            0 => "cut",
            1 => "refuse",
            _ => "accept",
        }
    }

    /// Which messages over sockets are encrypted.
    pub fn mpi_encrypt(&self) -> Encrypt {
        match self.number_of(Id::mpi_encrypt) {
            0 => Encrypt::Off,
            1 => Encrypt::On,
            _ => Encrypt::Auto,
        }
    }

    /// The treatment of buffers in the memory of accelerators.
    pub fn accelerator(&self) -> Accelerator {
        match self.number_of(Id::accelerator) {
            0 => Accelerator::Auto,
            1 => Accelerator::Cuda,
            2 => Accelerator::Null,
            _ => Accelerator::Off,
        }
    }

    /// The error handler of MPI_COMM_WORLD and MPI_COMM_SELF until the program sets another one.
    pub fn initial_errhandler(&self) -> InitialErrhandler {
        match self.number_of(Id::mpi_initial_errhandler) {
            0 => InitialErrhandler::Fatal,
            1 => InitialErrhandler::Abort,
            _ => InitialErrhandler::Return,
        }
    }

    /// Whether the launcher reports at SIGUSR1, and whether it passes the signal on.
    pub fn mpi_sigusr1(&self) -> (bool, bool) {
        match self.number_of(Id::mpi_sigusr1) {
            0 => (true, false),
            1 => (false, true),
            _ => (true, true),
        }
    }

    /// Whether operations count as associative: all, none, or (`None`) the operations whose
    /// result does not depend on the grouping.
    pub fn coll_base_associative(&self) -> Option<bool> {
        match self.number_of(Id::coll_base_associative) {
            2 => None,
            asserted => Some(asserted == 1),
        }
    }
}

/// All parameters, in the order of listings.
pub(crate) static TABLE: LazyLock<Vec<&'static Param>> = LazyLock::new(|| {
    let (before, rest) = OWN.split_at(Id::rpi as usize);
    let behind = &rest[1..];
    let transports = Module::all().iter().flat_map(|module| module.params.iter().copied());
    let tuned = tuned::ROWS.iter().flatten();
    before.iter().chain([&*RPI]).chain(transports).chain(behind).chain(tuned).collect()
});

/// The row `rpi`, with the words of the linked transports.
static RPI: LazyLock<Param> = LazyLock::new(|| {
    let all = Module::all();
    let words: Vec<_> = all.iter().map(|module| module.name).collect();
    let texts = all.iter().fold(String::new(), |texts, module| texts + " " + module.help);
    let row = OWN[Id::rpi as usize];
    // The leak is bounded: it happens once.
    Param {
        unit: Unit::Set { words: words.leak(), alone: 0 },
        max: all.len().saturating_sub(1) as i64,
        help: (row.help.to_string() + &texts).leak(),
        ..row
    }
});

/// Makes the table of this file, and a getter of the right type for each row.
macro_rules! parameters {
    ($( $name:ident : $get:ident { $($row:tt)* } )*) => {
        #[allow(non_camel_case_types)] // the names of the parameters themselves
        #[derive(Clone, Copy)]
        enum Id { $($name),* }

        static OWN: [Param; [$(Id::$name),*].len()] = [ $( parameters!(@param $name, $get, { $($row)* }) ),* ];

        impl Params { $( parameters!(@getter $name, $get, { $($row)* }); )* }
    };
    (@param $name:ident, switch, {
        default: $default:literal, $(aliases: $aliases:expr,)? level: $level:ident, $(change: $change:ident,)? help: $help:expr $(,)?
    }) => {
        Param {
            aliases: parameters!(@aliases $($aliases)?), level: Level::$level, change: parameters!(@change $($change)?),
            ..Param::switch(stringify!($name), $default, $help)
        }
    };
    (@param $name:ident, text, {
        default: $default:literal, $(aliases: $aliases:expr,)? level: $level:ident, $(change: $change:ident,)? help: $help:expr $(,)?
    }) => {
        Param {
            name: stringify!($name), aliases: parameters!(@aliases $($aliases)?), unit: Unit::Text { default: $default },
            default: 0, min: 0, max: 0, power_of_two: false, level: Level::$level, change: parameters!(@change $($change)?),
            help: $help,
        }
    };
    (@param $name:ident, $get:ident, {
        unit: $unit:expr, default: $default:expr, limits: $min:literal ..= $max:expr, $(power_of_two: $pow:literal,)?
        $(aliases: $aliases:expr,)? level: $level:ident, $(change: $change:ident,)? help: $help:expr $(,)?
    }) => {
        Param {
            name: stringify!($name), aliases: parameters!(@aliases $($aliases)?), unit: $unit, default: $default,
            min: $min, max: $max, power_of_two: false $(|| $pow)?, level: Level::$level,
            change: parameters!(@change $($change)?), help: $help,
        }
    };
    (@aliases) => { &[] };
    (@aliases $aliases:expr) => { &$aliases };
    (@change) => { ChangeRule::Never };
    (@change $change:ident) => { ChangeRule::$change };
    (@getter $name:ident, by_hand, $row:tt) => {};
    (@getter $name:ident, $get:ident, {
        $(unit: $unit:expr,)? default: $default:expr, $(limits: $min:literal ..= $max:expr,)? $(power_of_two: $pow:literal,)?
        $(aliases: $aliases:expr,)? level: $level:ident, $(change: $change:ident,)? help: $help:expr $(,)?
    }) => {
        #[doc = $help]
        #[inline]
        pub fn $name(&self) -> parameters!(@type $get) {
            parameters!(@read self, $name, $get)
        }
    };
    (@type switch) => { bool };
    (@type text) => { &str };
    (@type $type:ident) => { $type };
    (@read $self:ident, $name:ident, switch) => { $self.number_of(Id::$name) != 0 };
    (@read $self:ident, $name:ident, text) => { $self.text_of(Id::$name) };
    (@read $self:ident, $name:ident, $type:ident) => { $self.number_of(Id::$name) as $type };
}

parameters! {
    mpi_abort_on_non_zero_status: switch {
        default: true, aliases: ["orte_abort_on_non_zero_status", "prte_abort_on_non_zero_status"], level: User,
        help: "Whether a rank ends the job (1) if it exits with a code other than 0 before MPI_Init, or after MPI_Finalize \
               while other ranks have not called MPI_Finalize. With 0 the other ranks go on, and mpirun exits with that code \
               when all have ended.",
    }
    mpi_agent_fan_out: u64 {
        unit: Unit::Count, default: 32, limits: 1..=65535, aliases: ["routed_radix", "prte_routed_radix"], level: User,
        help: "The most agents that one process starts and has connections with, mpirun among them. In a job on more hosts \
               the agents on the first hosts start the others, and so on. So these hosts must reach the others by ssh \
               without a password; a number as large as that of the hosts starts all agents from the host of mpirun.",
    }
    mpi_agent_silence_s: u64 {
        unit: Unit::Count, default: 60, limits: 1..=2147483647, level: User,
        help: "Seconds without a message from the agent of another host after which mpirun gives up the agent and the ranks \
               there. An agent reports four times in this time, and at least every 15 seconds. The agent ends its ranks when \
               the host of mpirun has not answered for this time; the kernel of that host answers for a stopped mpirun too. A \
               daemon ends the programs of 'oxmpi exec' in the same manner.",
    }
    mpi_encrypt: by_hand {
        unit: Unit::Choice(&["0", "1", "auto"]), default: 2, limits: 0..=2, level: User,
        help: "Whether messages over sockets are encrypted, between ranks and between the daemons of rpi lamd. auto: those \
               between hosts, and not those within one (where both ends have the same address, or addresses of the loopback). \
               1: all. 0: none, so that a third party in the network can read and change them. A connection is encrypted if \
               one of its two ranks requires that. Messages over ib, ofi, gm or portals4 are never encrypted, and 1 refuses \
               these transports.",
    }
    mpi_ft_enable: switch {
        default: false, aliases: ["ft_enable"], level: User,
        help: "Whether a job goes on (1) or is ended (0) when one of its ranks dies after MPI_Init. With 1 the other ranks get \
               MPIX_ERR_PROC_FAILED and can use the functions of mpi-ext.h; 'mpirun --with-ft ulfm' sets it.",
    }
    mpi_hostmap: text {
        default: "", level: User,
        help: "A file with lines 'HOST ADDRESS': the address that a host sends its peers in jobs over sockets. Empty: \
               PREFIX/etc/oxmpi-hostmap.conf, if it exists; 'none': no file.",
    }
    accelerator: by_hand {
        unit: Unit::Choice(&["auto", "cuda", "null", "off"]), default: 0, limits: 0..=3, level: User,
        help: "How buffers in the memory of an accelerator are treated. auto: the CUDA driver copies them through memory of \
               the host, once the program has loaded the driver. cuda: the same, and MPI_Init loads the driver, or fails. \
               null: such a buffer is MPI_ERR_BUFFER. off: no address is checked, as on a machine without a device; such a \
               buffer then ends the program with a signal.",
    }
    accelerator_cuda_library: text {
        default: "libcuda.so.1", level: User,
        help: "The file of the CUDA driver, as the loader of programs takes it: a name that it searches for, or a path. A file \
               other than the default is used even if the kernel has no driver of NVIDIA's.",
    }
    mpi_initial_errhandler: by_hand {
        unit: Unit::Choice(&["mpi_errors_are_fatal", "mpi_errors_abort", "mpi_errors_return"]), default: 0, limits: 0..=2,
        aliases: ["initial_errhandler"], level: User,
        help: "The error handler of MPI_COMM_WORLD and MPI_COMM_SELF until the program sets another one, and of \
               errors before MPI_Init and after MPI_Finalize.",
    }
    mpi_show_select: switch {
        default: false, level: User,
        help: "With 1, rank 0 prints when it starts which modules are selected and why ('oxmpi \
               info --select' prints the same without a job).",
    }
    mpi_sigusr1: by_hand {
        unit: Unit::Choice(&["report", "forward", "both"]), default: 0, limits: 0..=2, level: User,
        help: "What mpirun does when it gets SIGUSR1: print what each rank does and for which ranks it waits (report), pass the signal \
               on to the ranks (forward), or both. SIGUSR2 is always passed on.",
    }
    mpi_watchdog: u64 {
        unit: Unit::Count, default: 0, limits: 0..=2147483647, aliases: ["watchdog"], level: User,
        help: "Seconds after which mpirun reports a wait in MPI during which no message has arrived: which rank waits for \
               which other, and on what. Each such hang is reported once; 'mpirun --watchdog SECONDS' sets it. 0: never.",
    }
    mpi_watch_ended: u64 {
        unit: Unit::Count, default: 10, limits: 0..=2147483647, level: User,
        help: "Seconds after which mpirun reports once which rank waits for which other, and on what, if a rank of one thread \
               waits for a rank of the same host that has ended. 0: never.",
    }
    mpi_watchdog_abort: switch {
        default: false, level: User,
        help: "Whether a report of mpi_watchdog or mpi_watch_ended ends the job with exit code 124 (1), or the job goes on (0).",
    }
    mpi_join_limit_s: u64 {
        unit: Unit::Count, default: 300, limits: 1..=2147483647, level: User,
        help: "Seconds in which all processes that another launcher (srun, mpiexec, prterun) has started must come to MPI_Init \
               to become one job. A program that uses MPI in some of its processes only must run with mpi_allow_singletons 1.",
    }
    mpi_param_check: switch {
        default: true, level: Tune,
        help: "Whether the arguments of calls are checked (1) or, where a check costs time, trusted (0). With 0 a null buffer, \
               a datatype that was not committed and MPI_IN_PLACE in the wrong place go unnoticed, and a handle that is no \
               request is found only after the requests before it in its array were handled. Handles are always checked.",
    }
    mpi_strict: switch {
        default: false, level: User,
        help: "Whether the rules of the standard hold (1), or OxMPI does as other MPI libraries (0), in three cases. With 1, \
               operations that the standard does not define are refused: those of C's integers on MPI_CHAR in reductions, \
               accumulates and MPI_Compare_and_swap, and logical operations on MPI_AINT, MPI_OFFSET and MPI_COUNT. With 1, an \
               error of a call on no object always goes to the error handler of MPI_COMM_SELF; with 0 it goes to that of \
               MPI_COMM_WORLD until the program sets the handler of MPI_COMM_SELF. A buffered send takes MPI_BSEND_OVERHEAD \
               (512) bytes of its buffer beside its data with 1, and 88 with 0, which is enough for programs that were written \
               for another library.",
    }
    mpi_allow_singletons: switch {
        default: false, aliases: ["allow_singletons"], level: User,
        help: "Whether a process that another launcher (srun, Hydra's mpiexec, Open MPI's mpirun) has started as one of \
               several may be a job of one rank (1), or its MPI_Init fails (0). With 1 there is also no warning where only \
               variables of such a launcher indicate several tasks.",
    }
    mpi_foreign: switch {
        default: true, level: User,
        help: "Whether programs that were built for another MPI run with the libraries of OxMPI for them. With 0, mpirun sets \
               neither LD_LIBRARY_PATH nor MPI4PY_LIBMPI, and refuses such programs (mpirun --no-foreign).",
    }
    mpi_library_version: text {
        default: "", level: User,
        help: "The text of MPI_Get_library_version, for programs that recognise libraries by its beginning and refuse others \
               ('MPICH Version: 4.1.0', 'Open MPI v5.0.0'). Empty: OxMPI's name and version.",
    }
    pmix_library: text {
        default: "libpmix.so.2", level: User,
        help: "The file of the library PMIx, as the loader of programs takes it: a name that it searches for, or a path. A \
               process that Slurm or prterun has started finds its launcher by this library.",
    }
    munge_library: text {
        default: "libmunge.so.2", level: User,
        help: "The file of the library MUNGE, as the loader of programs takes it: a name that it searches for, or a path. By \
               MUNGE the nodes of a step of Slurm without PMI (srun --mpi=none) prove their user to each other.",
    }
    munge_socket: text {
        default: "", level: User,
        help: "The path of the socket of MUNGE's daemon. Empty: the default of MUNGE's library. A site with another one has it \
               in AuthInfo of slurm.conf.",
    }
    mpi_virtual_nodes: u32 {
        unit: Unit::Count, default: 1, limits: 1..=65536, aliases: ["virtual_nodes"], level: Tune,
        help: "The number of virtual nodes over which mpirun spreads the ranks of one machine, in even blocks. Ranks of one \
               virtual node share memory (if rpi is shm), and others use sockets; MPI_Comm_split_type and the collectives \
               treat the nodes as different ones. So a program for several nodes can be tried on one machine. Processes that \
               it spawns are on the first node.",
    }
    shm_eager_limit_bytes: usize {
        unit: Unit::Bytes, default: 262144, limits: 0..=524288, level: Tune, change: Always,
        help: "The longest message in shared memory whose standard send does not wait for its receiver; longer ones do \
               (rendezvous). The data of shorter ones are in the ring, in the pool, or still at their sender, which makes a \
               copy before it would wait ('oxmpi explain copy').",
    }
    shm_pool_bytes: usize {
        unit: Unit::Bytes, default: 4194304, limits: 0..=1073741824, power_of_two: true, level: Tune,
        help: "Bytes of a rank's pool, through which its longer messages go to all other ranks; 0: none. A pool that is larger \
               than the private caches of a core is fastest. With more ranks than cores a quarter of it is used.",
    }
    shm_pool_from_bytes: usize {
        unit: Unit::Bytes, default: 1024, limits: 57..=1073741824, level: Tune, change: Always,
        help: "The shortest message that goes through the sender's pool; shorter ones use the data ring. As long as a rank has \
               granted no ring, all messages to it of more than 440 bytes go through the pool.",
    }
    shm_copy_costs: text {
        default: "", level: Tune,
        help: "The file with the copy costs of this machine, which 'oxmpi doctor --measure' writes and 'oxmpi explain copy' \
               shows. Empty: ~/.oxmpi/copy-costs.conf, if it exists; 'none': no file, but the built-in costs of the processor. \
               A file of another processor or another release of the kernel is not used.",
    }
    shm_heap_bytes: u64 {
        unit: Unit::Bytes, default: 1073741824, limits: 0..=1099511627776, level: Tune,
        help: "Bytes of a rank's segment for MPI_Alloc_mem, from which receivers copy long messages directly; 0: none. Only \
               used bytes take memory. When these bytes are used up, MPI_Alloc_mem returns ordinary memory.",
    }
    shm_ring_slots: usize {
        unit: Unit::Count, default: 128, limits: 4..=65536, power_of_two: true, level: Tune,
        help: "Slots of 64 bytes in the ring between two ranks: the most small messages that can be under way.",
    }
    shm_ring_data_bytes: usize {
        unit: Unit::Bytes, default: 65536, limits: 32768..=16777216, power_of_two: true, level: Tune,
        help: "Bytes of the data ring between two ranks. It carries messages of 57 bytes and more that are too short for the \
               sender's pool (shm_pool_from_bytes), or for which the pool has no room.",
    }
    shm_max_rings: usize {
        unit: Unit::Count, default: 16, limits: 0..=1024, level: Tune,
        help: "The most rings that a rank grants to its peers. Other peers send through its inbox, which is slower. With more \
               rings a rank needs more memory, and a poll for messages more time.",
    }
    shm_ring_after: u32 {
        unit: Unit::Count, default: 2, limits: 0..=1000000, level: Tune, change: Always,
        help: "Messages that a peer sends through the inbox before it is granted a ring of its own.",
    }
    shm_inbox_cells: usize {
        unit: Unit::Count, default: 64, limits: 4..=65536, power_of_two: true, level: Tune,
        help: "Cells in a rank's inbox, which all peers without a ring of their own share.",
    }
    single_copy: by_hand {
        unit: Unit::Choice(&["auto", "off", "on"]), default: 0, limits: 0..=2, aliases: ["shm_single_copy"], level: User,
        change: Always,
        help: "Whether receivers copy messages directly from the memory of their senders (process_vm_readv). 'auto': where the \
               facts about the processor say that this is faster than two copies through shared memory ('oxmpi explain copy'). \
               'on': all messages from shm_pool_from_bytes on. Each pair of ranks tries such a copy, and uses shared memory if \
               it is forbidden.",
    }
    wait_spin_us: u64 {
        unit: Unit::Micros, default: 20, limits: 0..=1000000, level: Tune, change: Always,
        help: "Microseconds for which a waiting rank polls for messages without yielding its core, if each rank has a core.",
    }
    wait_yield_us: u64 {
        unit: Unit::Micros, default: 1000, limits: 0..=1000000, level: Tune, change: Always,
        help: "Microseconds for which a waiting rank then polls and yields its core to others, before it sleeps, if each rank \
               has a core.",
    }
    wait_slow_yield_us: u64 {
        unit: Unit::Micros, default: 500, limits: 1..=1000000, level: Tune, change: Always,
        help: "A yield that takes longer than this means that another program computes on the core, \
               and waiting ranks then sleep at once for a while (wait_sleeping).",
    }
    wait_sleeping: u32 {
        unit: Unit::Count, default: 1000, limits: 0..=1000000000, level: Tune, change: Always,
        help: "The most waits that sleep at once after a slow yield (wait_slow_yield_us). The first slow yield causes 32 such \
               waits, and each further one that follows soon twice as many.",
    }
    wait_yields: u32 {
        unit: Unit::Count, default: 32, limits: 0..=1000000, level: Tune, change: Always,
        help: "The number of times that a waiting rank yields its core to others before it sleeps, with more ranks than cores.",
    }
    rpi: by_hand {
        // The words and their sentences come from the linked transports.
        unit: Unit::Set { words: &[], alone: 0 }, default: 0, limits: 0..=0,
        level: User,
        help: "The transport of messages; of several, the usable one with the highest priority.",
    }
    btl_tcp_if_include: text {
        default: "", aliases: ["rpi_tcp_if_include"], level: User,
        help: "The networks that sockets may use, separated by commas: names of interfaces (eth0) or addresses with \
               a prefix length (10.0.0.0/8). Empty: all but those of btl_tcp_if_exclude.",
    }
    btl_tcp_if_exclude: text {
        default: "", aliases: ["rpi_tcp_if_exclude"], level: User,
        help: "The networks that sockets must not use, in the form of btl_tcp_if_include.",
    }
    plm_rsh_agent: text {
        default: "ssh", aliases: ["boot_rsh_agent", "pls_rsh_agent", "plm_ssh_agent"], level: User,
        help: "The program by which mpirun starts its agent, and 'oxmpi boot' a daemon, on another host, with its options \
               before the host. Of several programs, separated by colons, the first that exists is used. 'ssh' gets the option \
               not to prompt (BatchMode). If this is not set, the environment variable LAMRSH means the same.",
    }
    plm_slurm_args: text {
        default: "", level: User,
        help: "Options for the 'srun' by which mpirun starts its agents in an allocation of Slurm, such as '--time=5'. They \
               follow those of mpirun, which 'oxmpi info --allocation' shows, so they can replace these.",
    }
    boot_session_suffix: text {
        default: "", level: User,
        help: "A word that distinguishes universes of one user on one host ('oxmpi boot'): daemons and commands with different \
               words do not see each other.",
    }
    cr: by_hand {
        unit: Unit::Set { words: &["auto", "none", "blcr", "self"], alone: 2 }, default: 0, limits: 0..=3, level: User,
        help: "The module for checkpoints; of several, the first of blcr and self that can be used. 'blcr': images of the \
               processes of a job, which CRIU makes in place of BLCR ('oxmpi checkpoint', 'oxmpi restart'). mpirun, and its \
               agent on each other host, check for CRIU when they start; the thread level is MPI_THREAD_SERIALIZED at least; \
               and the transport is crtcp unless another one is named. 'self': functions of the program that save and restore \
               its state (cr_self_user_prefix), over any transport that images support. 'auto': blcr, if the transport is \
               crtcp and the thread level is high enough. 'oxmpi checkpoint --tree' needs no module. 'none': none.",
    }
    cr_base_dir: text {
        default: "", level: User,
        help: "The directory for checkpoints ('oxmpi checkpoint'), which is made if it does not exist. Empty: the home \
               directory.",
    }
    cr_keep: u64 {
        unit: Unit::Count, default: 2, limits: 0..=1000, level: User,
        help: "The number of older sets of a job that are kept beside its newest checkpoint. Others are removed when the new \
               one is safe on disk.",
    }
    cr_files: by_hand {
        unit: Unit::Choice(&["cut", "refuse", "accept"]), default: 0, limits: 0..=2, level: User,
        help: "How 'oxmpi restart' treats a file that the job had open for writing, and that has changed since the checkpoint. \
               cut: a file that has grown is cut back, and the part that is cut off is kept beside the sets; a part that the \
               restart of another set has cut off is put back; another file with other contents is refused. accept: the same, \
               but another file is used as it is. refuse: every changed file is refused. A file that is too short, and whose \
               missing part is not kept, is always refused.",
    }
    cr_self_user_prefix: text {
        default: "", aliases: ["cr_ssi_user_prefix"], level: User,
        help: "For 'cr self': the program has functions PREFIX_checkpoint, PREFIX_restart and PREFIX_continue. They save its \
               state, restore it within MPI_Init after 'oxmpi restart', and are called when the job goes on after a \
               checkpoint.",
    }
    cr_self_user_checkpoint: text {
        default: "", aliases: ["cr_ssi_user_checkpoint"], level: User,
        help: "For 'cr self': the function of the program that saves its state, in place of PREFIX_checkpoint. If it returns \
               another value than 0, the checkpoint is discarded.",
    }
    cr_self_user_restart: text {
        default: "", aliases: ["cr_ssi_user_restart"], level: User,
        help: "For 'cr self': the function of the program that restores its state, called by MPI_Init, in place of \
               PREFIX_restart. If it returns another value than 0, the job ends.",
    }
    cr_self_user_continue: text {
        default: "", aliases: ["cr_ssi_user_continue"], level: User,
        help: "For 'cr self': the function of the program that is called when a checkpoint is on disk and the job goes on, in place of \
               PREFIX_continue.",
    }
    cr_blcr_criu: text {
        default: "", level: User,
        help: "The program CRIU, which makes and restores images of processes. Empty: 'criu' in PATH, /usr/sbin or /sbin.",
    }
    cr_blcr_options: text {
        default: "", level: User,
        help: "More options for CRIU, at checkpoints and restarts, separated by blanks: '--link-remap --ghost-limit 64M'.",
    }
    btl: text {
        default: "", level: User,
        help: "Open MPI's word for transports: a list such as 'self,sm,tcp' of the permitted ones, or '^tcp' for all but \
               these. It must leave 'self' and a transport to other processes. 'sm', 'vader' and 'shm' are rpi shm, 'tcp' is \
               rpi tcp, 'openib' is rpi ib, 'ofi' and 'portals4' are the transports of these names; of the permitted ones, the \
               highest priority is used.",
    }
    mtl: text {
        default: "", level: User,
        help: "Open MPI's word for networks that match messages: 'ofi' is rpi ofi, and '^ofi' excludes it.",
    }
    pml: text {
        default: "", level: User,
        help: "Open MPI's word for the engine of messages: 'ob1' uses the transports of btl, 'cm' those of mtl. '^ucx' \
               means all but this one.",
    }
    coll: text {
        default: "", level: User,
        help: "The components that may serve collectives, separated by commas \
               (basic,self,libnbc), or behind a ^ the components that may not (^shmem,smp). \
               Empty: all. The component base serves the calls that none of them serves. 'oxmpi \
               info --collectives' lists them.",
    }
    coll_base_associative: by_hand {
        unit: Unit::Choice(&["0", "1", "unset"]), default: 2, limits: 0..=2, level: User, change: Alike,
        help: "Whether operations count as associative; each reduction reads it. 0: none is, and contributions are combined \
               one by one in the order of the ranks. 1: all are. unset: operations whose result does not depend on the \
               grouping; sums and products of floating-point numbers and operations of the program are not grouped by the \
               nodes of the ranks.",
    }
    coll_crossover: u32 {
        unit: Unit::Count, default: 4, limits: 0..=2147483647, level: Tune,
        help: "The most ranks for which the collective component basic takes linear algorithms; for more it takes \
               binomial trees.",
    }
    coll_reduce_crossover: u64 {
        unit: Unit::Bytes, default: 4096, limits: 0..=9223372036854775807, level: Tune,
        help: "The most bytes of each rank's contribution that the collective component basic reduces by linear algorithms; \
               for more it takes binomial trees.",
    }
    coll_self_priority: u32 {
        unit: Unit::Count, default: 75, limits: 0..=100, level: User,
        help: "The priority of the collective component self: of all components that can serve a \
               call the one with the highest priority does.",
    }
    coll_sync_priority: u32 {
        unit: Unit::Count, default: 50, limits: 0..=100, level: User,
        help: "The priority of the collective component sync: of all components that can serve a \
               call the one with the highest priority does.",
    }
    coll_smp_priority: u32 {
        unit: Unit::Count, default: 50, limits: 0..=100, aliases: ["coll_han_priority"], level: User,
        help: "The priority of the collective component smp: of all components that can serve a \
               call the one with the highest priority does.",
    }
    coll_shmem_priority: u32 {
        unit: Unit::Count, default: 50, limits: 0..=100, aliases: ["coll_xhc_priority", "coll_sm_priority"], level: User,
        help: "The priority of the collective component shmem: of all components that can serve a \
               call the one with the highest priority does.",
    }
    coll_inter_priority: u32 {
        unit: Unit::Count, default: 40, limits: 0..=100, level: User,
        help: "The priority of the collective component inter: of all components that can serve a \
               call the one with the highest priority does.",
    }
    coll_tuned_priority: u32 {
        unit: Unit::Count, default: 30, limits: 0..=100, level: User,
        help: "The priority of the collective component tuned: of all components that can serve a \
               call the one with the highest priority does.",
    }
    coll_libnbc_priority: u32 {
        unit: Unit::Count, default: 10, limits: 0..=100, level: User,
        help: "The priority of the collective component libnbc: of all components that can serve \
               a call the one with the highest priority does.",
    }
    coll_basic_priority: u32 {
        unit: Unit::Count, default: 0, limits: 0..=100, aliases: ["coll_lam_basic_priority"], level: User,
        help: "The priority of the collective component basic: of all components that can serve a \
               call the one with the highest priority does.",
    }
    coll_ftagree_priority: u32 {
        unit: Unit::Count, default: 30, limits: 0..=100, level: User,
        help: "The priority of the collective component ftagree, if mpi_ft_enable is 1: it serves agreements (MPIX_Comm_agree, \
               MPIX_Comm_shrink), unless basic has a higher priority.",
    }
    coll_ftagree_agreement: u32 {
        unit: Unit::Count, default: 1, limits: 0..=2, level: User,
        help: "The algorithm of agreements by ftagree. 0: allreduce, which fails with the first failure (to measure the cost \
               of tolerance); 1: early returning, over a tree that is mended around failures; 2: early terminating, in rounds \
               of all to all.",
    }
    coll_ftagree_era_topology: u32 {
        unit: Unit::Count, default: 1, limits: 1..=4, level: User,
        help: "The tree of early returning agreements (coll_ftagree_agreement 1). 1: binary, 2: star, 3: string, 4: binomial.",
    }
    coll_ftagree_era_rebuild: switch {
        default: false, level: User,
        help: "Whether each early returning agreement has a new tree of the ranks that were alive after the previous agreement \
               (1), or all agreements use the first tree, mended (0). With 1 an agreement waits for the previous one.",
    }
    coll_ucc_priority: u32 {
        unit: Unit::Count, default: 10, limits: 0..=100, level: User,
        help: "The priority of the collective component ucc, if coll_ucc_enable is 1: of all components that can serve a call \
               the one with the highest priority does. With 100 it goes before all others.",
    }
    coll_ucc_enable: switch {
        default: false, level: User,
        help: "Whether collectives may be handed to the library UCC (the component ucc), in the order of priorities.",
    }
    coll_ucc_library: text {
        default: "libucc.so.1", level: User,
        help: "The file of the library UCC, as the loader of programs takes it: a name that it searches for, or a path.",
    }
    coll_ucc_cls: text {
        default: "", level: Develop,
        help: "The collective layers that UCC may use, with commas between them (basic,hier); empty: as UCC is configured.",
    }
    coll_ucc_cts: text {
        default: "", level: Develop,
        help: "The types of collectives that are handed to UCC, with commas between them: barrier, bcast, allreduce, alltoall, alltoallv, \
               allgather, allgatherv, reduce, gather, gatherv, reduce_scatter_block, reduce_scatter, scatter, scatterv, and for the \
               nonblocking forms the same with an i before them (iallreduce). Behind a ^: all but these. Empty: all.",
    }
    coll_ucc_np: u32 {
        unit: Unit::Count, default: 2, limits: 0..=2147483647, level: User,
        help: "The fewest ranks of a communicator whose collectives are handed to UCC.",
    }
    coll_ucc_verbose: u32 {
        unit: Unit::Count, default: 0, limits: 0..=100, level: User,
        help: "From 1 on, the first rank of each communicator prints when a team of UCC is made for it, or why none is; from 2 \
               on also which calls UCC does not support.",
    }
    coll_hcoll_priority: u32 {
        unit: Unit::Count, default: 90, limits: 0..=100, level: User,
        help: "The priority of the collective component hcoll, if coll_hcoll_enable is 1: of all \
               components that can serve a call the one with the highest priority does.",
    }
    coll_hcoll_enable: switch {
        default: false, level: User,
        help: "Whether collectives may be handed to the library HCOLL (the component hcoll), in the order of priorities.",
    }
    coll_hcoll_library: text {
        default: "libhcoll.so.1", level: User,
        help: "The file of the library HCOLL, as the loader of programs takes it: a name that it searches for, or a path.",
    }
    coll_hcoll_np: u32 {
        unit: Unit::Count, default: 2, limits: 0..=2147483647, level: User,
        help: "The fewest ranks of a communicator whose collectives are handed to HCOLL.",
    }
    coll_hcoll_verbose: u32 {
        unit: Unit::Count, default: 0, limits: 0..=100, level: User,
        help: "From 1 on, the first rank of each communicator prints when a context of HCOLL is made for it, or why none is; \
               from 2 on also which calls HCOLL has served, and which it does not support.",
    }
    coll_smp_segmentsize: usize {
        unit: Unit::Bytes, default: 0, limits: 0..=1099511627776, aliases: ["coll_han_segmentsize"], level: Develop,
        help: "Bytes of the segments into which the collective component smp cuts longer vectors of bcast, and of reduce and \
               allreduce with commutative operations, to send them along chains. 0: 64 KiB if each rank has a processor and \
               the cost model predicts a gain, and no segments otherwise.",
    }
    coll_smp_virtual_nodes: text {
        default: "", aliases: ["coll_han_virtual_nodes"], level: Develop,
        help: "The nodes to which the collective component smp assigns the ranks of MPI_COMM_WORLD, to try its algorithms on \
               one machine: a number of nodes of neighbouring ranks (2), or the node of each rank (0,0,1), repeated.",
    }
    coll_sync_barrier_after: u32 {
        unit: Unit::Count, default: 0, limits: 0..=2147483647, level: User,
        help: "The component sync puts a barrier after each blocking collective of this number, counted for each communicator \
               over collectives with a root, scans and reduce-scatters; 0: never.",
    }
    coll_sync_barrier_before: u32 {
        unit: Unit::Count, default: 0, limits: 0..=2147483647, level: User,
        help: "The component sync puts a barrier before each blocking collective of this number, counted for each communicator \
               over collectives with a root, scans and reduce-scatters; 0: never.",
    }
    coll_verbose: u32 {
        unit: Unit::Count, default: 0, limits: 0..=100, aliases: ["coll_base_verbose"], level: User,
        help: "From 1 on, rank 0 of each communicator prints the components that serve it when it is made, and the algorithm \
               that served a collective with the reason, once for each power of two of message sizes.",
    }
    coll_base_shmem_message_pool_size: usize {
        unit: Unit::Bytes, default: 524288, limits: 4096..=16777216, level: Tune,
        help: "Bytes of the message pool through which a rank's data go in collectives of one node, for each communicator. \
               More than 16 ranks share as much as 16. Few ranks use up to four times as much for data in one direction, and \
               two ranks half a pool for data in both. A piece of one rank for another has at most 64 KiB.",
    }
    coll_base_shmem_num_segments: usize {
        unit: Unit::Count, default: 8, limits: 2..=64, level: Tune,
        help: "Segments of the message pool (coll_base_shmem_message_pool_size). Each takes a piece of the data: while some \
               ranks write one segment, others read another.",
    }
    coll_tuned_use_dynamic_rules: switch {
        default: false, level: User,
        help: "Whether algorithms of collectives are taken from coll_tuned_COLLECTIVE_algorithm and from the file \
               coll_tuned_dynamic_rules_filename.",
    }
    coll_tuned_dynamic_rules_filename: text {
        default: "", level: User,
        help: "A file with rules that say which algorithm serves which sizes of communicators and messages, in Open MPI's \
               versions 1, 2 or JSON. It needs coll_tuned_use_dynamic_rules 1.",
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
            let default = p.default_value();
            assert_eq!(
                p.parse(&p.show(&default)).as_ref(),
                Ok(&default),
                "{}: its default",
                p.name
            );
            let suffix = match p.unit {
                Unit::Bytes => Some("_bytes"),
                Unit::Micros => Some("_us"),
                _ => None,
            };
            // Names of LAM/MPI and Open MPI do not follow this rule.
            let old = [
                "rpi_",
                "coll_tuned_",
                "coll_base_shmem_",
                "coll_reduce_crossover",
                "coll_smp_segmentsize",
            ]
            .iter()
            .any(|old| p.name.starts_with(old));
            assert!(
                old || suffix.is_none_or(|s| p.name.ends_with(s)),
                "{}: the unit comes last",
                p.name
            );
            for other in &Param::all()[..i] {
                assert!(
                    p.name != other.name && !other.aliases.contains(&p.name),
                    "{} twice",
                    p.name
                );
            }
        }
    }

    #[test]
    fn the_getters_read_their_own_row() {
        let value = |p: &Param| match p.unit {
            Unit::Text { .. } => Value::Text(p.name.into()),
            _ => Value::Number(p.max),
        };
        let mut params = Params::default();
        for p in Param::all() {
            params.set(p.name, &p.show(&value(p))).unwrap();
        }
        assert_eq!(params.shm_ring_slots(), 65536);
        assert_eq!(params.wait_sleeping(), 1_000_000_000);
        assert_eq!(params.single_copy(), SingleCopy::On);
        assert!(params.mpi_param_check() && params.mpi_ft_enable() && params.mpi_strict());
        assert_eq!(
            (params.mpi_hostmap(), params.shm_copy_costs()),
            ("mpi_hostmap", "shm_copy_costs")
        );
        assert_eq!((params.pml(), params.btl(), params.mtl()), ("pml", "btl", "mtl"));
        assert_eq!(params.plm_rsh_agent(), "plm_rsh_agent");
        assert!(params.mpi_show_select());
        assert_eq!(params.btl_tcp_if_include(), "btl_tcp_if_include");
        assert_eq!(params.btl_tcp_if_exclude(), "btl_tcp_if_exclude");
        assert!(params.iter().all(|(p, v)| v == value(p)));
    }

    #[test]
    fn what_is_encrypted_is_one_of_three_words() {
        assert_eq!(Params::default().mpi_encrypt(), Encrypt::Auto);
        for (word, encrypt) in [("0", Encrypt::Off), ("1", Encrypt::On), ("auto", Encrypt::Auto)] {
            assert_eq!(Params::default().with("mpi_encrypt", word).unwrap().mpi_encrypt(), encrypt);
        }
        for word in ["2", "-1", "", "on please", "aut"] {
            let error = Params::default().with("mpi_encrypt", word).unwrap_err().to_string();
            assert!(
                error.contains(&format!("'{word}'")) && error.contains("one of 0, 1, auto"),
                "{word}: {error}"
            );
        }
    }

    #[test]
    fn a_set_has_several_words_of_which_some_stand_alone() {
        let params = Params::default().with("cr", "self, BLCR").unwrap();
        let cr = Param::find("cr").unwrap();
        assert_eq!((params.cr(), params.cr_names()), (Some("blcr"), vec!["blcr", "self"]));
        assert_eq!(
            (params.words(cr), cr.show(&params.value(cr))),
            (vec!["self", "blcr"], "self,blcr".into())
        );
        assert_eq!(Params::default().with("cr", "self").unwrap().cr_names(), ["self"]);
        for text in ["auto,blcr", "blcr,", "blcr,sefl"] {
            let error = Params::default().with("cr", text).unwrap_err().to_string();
            assert!(error.contains("or several of blcr, self with commas between"), "{error}");
        }
    }

    #[test]
    fn arguments_are_checked_unless_a_user_says_otherwise() {
        assert!(Params::default().mpi_param_check() && !Params::default().mpi_ft_enable());
        assert!(!Params::default().with("mpi_param_check", "0").unwrap().mpi_param_check());
        assert!(Params::default().with("mpi_param_check", "2").is_err());
    }

    #[test]
    fn a_switch_is_on_or_off_by_any_of_its_words() {
        for param in Param::all().iter().filter(|param| param.unit == Unit::Switch) {
            for (words, value) in [(["0", "false", "no"], 0), (["1", "true", " YES "], 1)] {
                for word in words {
                    assert_eq!(
                        param.parse(word),
                        Ok(Value::Number(value)),
                        "{} {word}",
                        param.name
                    );
                }
            }
            for word in ["", "2", "-1", "yess", "on", "0k"] {
                let error = param.parse(word).unwrap_err().to_string();
                let said = format!("parameter '{}': '{word}' is not one of 0, 1,", param.name);
                assert!(error.starts_with(&said), "{error}");
            }
        }
    }

    #[test]
    fn a_text_is_taken_as_it_is() {
        let params = Params::default().with("btl_tcp_if_include", " eth0, 10.0.0.0/8 ").unwrap();
        assert_eq!(params.btl_tcp_if_include(), "eth0, 10.0.0.0/8");
    }

    #[test]
    fn an_alias_sets_its_parameter() {
        assert_eq!(
            Params::default().with("shm_single_copy", "OFF").unwrap().single_copy(),
            SingleCopy::Off
        );
    }

    #[test]
    fn errors_name_the_limits() {
        let e = Params::default().with("shm_eager_limit_bytes", "524289").unwrap_err().to_string();
        assert!(e.contains("'524289'") && e.contains("from 0 to 524288"), "{e}");
        let e = Params::default().with("shm_ring_slots", "100").unwrap_err().to_string();
        assert!(e.contains("power of two"), "{e}");
        let e = Params::default().with("mpi_ft_enable", "maybe").unwrap_err().to_string();
        assert_eq!(
            e,
            "parameter 'mpi_ft_enable': 'maybe' is not one of 0, 1, false, true, no, yes"
        );
        let e = Params::default().with("single_copy", "maybe").unwrap_err().to_string();
        assert!(e.contains("one of auto, off"), "{e}");
    }

    proptest! {
        #[test]
        fn no_text_makes_parsing_panic(text in ".*") {
            for p in Param::all() {
                if let Ok(Value::Number(v)) = p.parse(&text) {
                    prop_assert!((p.min..=p.max).contains(&v));
                }
            }
            let _ = Params::default().set(&text, &text);
        }
    }
}
