//! The conversions of handles and numbers, one function for each set of constants and direction.
//! A third function, `X_shown`, returns the number of the program for any result of `X_in`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::iter;

use oxmpi_abi::constants::{CONSTANTS, ERROR_CLASSES};
use oxmpi_abi::errors::ErrorClass;
use oxmpi_abi::extensions;
use oxmpi_abi::foreign::ForeignConstant;

use crate::set;

/// The sets of numbers: the name of the conversion, and how the names of its constants begin.
/// Other numbers stay as they are.
const NUMBERS: [(&str, &[&str]); 5] = [
    ("darg", &["MPI_DISTRIBUTE_DFLT_DARG"]),
    ("rank", &["MPI_ANY_SOURCE", "MPI_PROC_NULL", "MPI_ROOT"]),
    ("tag", &["MPI_ANY_TAG"]),
    (
        "keyval",
        &[
            "MPI_KEYVAL_INVALID",
            "MPI_TAG_UB",
            "MPI_IO",
            "MPI_HOST",
            "MPI_WTIME_IS_GLOBAL",
            "MPI_APPNUM",
            "MPI_LASTUSEDCODE",
            "MPI_UNIVERSE_SIZE",
            "MPI_WIN_BASE",
            "MPI_WIN_SIZE",
            "MPI_WIN_DISP_UNIT",
            "MPI_WIN_CREATE_FLAVOR",
            "MPI_WIN_MODEL",
        ],
    ),
    ("code", &["MPI_ERR_", "MPI_T_ERR_", "MPIX_ERR_", "MPI_SUCCESS"]),
];

/// The sets of constants that are the only good values of an argument, by the name of the
/// argument.
pub(crate) const CHOICES: [(&str, &[&str]); 19] = [
    ("result", &["MPI_IDENT", "MPI_CONGRUENT", "MPI_SIMILAR", "MPI_UNEQUAL"]),
    ("order", &["MPI_ORDER_"]),
    ("typeclass", &["MPI_TYPECLASS_", "MPIX_TYPECLASS_"]),
    ("whence", &["MPI_SEEK_"]),
    ("lock_type", &["MPI_LOCK_"]),
    ("topology", &["MPI_CART", "MPI_GRAPH", "MPI_DIST_GRAPH", "MPI_UNDEFINED"]),
    ("split_type", &["MPI_COMM_TYPE_", "OMPI_COMM_TYPE_", "MPI_UNDEFINED"]),
    (
        "array_of_distribs",
        &["MPI_DISTRIBUTE_BLOCK", "MPI_DISTRIBUTE_CYCLIC", "MPI_DISTRIBUTE_NONE"],
    ),
    ("combiner", &["MPI_COMBINER_"]),
    ("required", &["MPI_THREAD_"]),
    ("provided", &["MPI_THREAD_"]),
    ("verbosity", &["MPI_T_VERBOSITY_"]),
    ("bind", &["MPI_T_BIND_"]),
    ("scope", &["MPI_T_SCOPE_"]),
    ("var_class", &["MPI_T_PVAR_CLASS_"]),
    ("ordering", &["MPI_T_SOURCE_"]),
    ("safety", &["MPI_T_CB_REQUIRE_"]),
    ("flavor", &["MPI_WIN_FLAVOR_"]),
    ("model", &["MPI_WIN_SEPARATE", "MPI_WIN_UNIFIED"]),
];

/// The sets of bits.
pub(crate) const BITS: [(&str, &[&str]); 2] = [
    (
        "assert",
        &[
            "MPI_MODE_NOCHECK",
            "MPI_MODE_NOSTORE",
            "MPI_MODE_NOPUT",
            "MPI_MODE_NOPRECEDE",
            "MPI_MODE_NOSUCCEED",
        ],
    ),
    (
        "amode",
        &[
            "MPI_MODE_APPEND",
            "MPI_MODE_CREATE",
            "MPI_MODE_DELETE_ON_CLOSE",
            "MPI_MODE_EXCL",
            "MPI_MODE_RDONLY",
            "MPI_MODE_RDWR",
            "MPI_MODE_SEQUENTIAL",
            "MPI_MODE_UNIQUE_OPEN",
            "MPI_MODE_WRONLY",
        ],
    ),
];

/// Special addresses.
const SPECIAL: [&str; 5] = [
    "MPI_IN_PLACE",
    "MPI_BUFFER_AUTOMATIC",
    "MPI_STATUS_IGNORE",
    "MPI_UNWEIGHTED",
    "MPI_WEIGHTS_EMPTY",
];

/// The handle types and the words of the table for them.
pub(crate) const HANDLES: [(&str, &str); 11] = [
    ("MPI_Comm", "comm"),
    ("MPI_Datatype", "datatype"),
    ("MPI_Errhandler", "errhandler"),
    ("MPI_File", "file"),
    ("MPI_Group", "group"),
    ("MPI_Info", "info"),
    ("MPI_Message", "message"),
    ("MPI_Op", "op"),
    ("MPI_Request", "request"),
    ("MPI_Session", "session"),
    ("MPI_Win", "win"),
];

pub(crate) fn text(all: &[ForeignConstant]) -> String {
    let mut text = String::new();
    for (name, prefixes) in NUMBERS.iter().chain(&CHOICES) {
        text += &Numbers::new(name, prefixes, all).text();
    }
    for (name, prefixes) in BITS {
        let pairs = set(all, prefixes);
        text += &bits(name, &pairs);
    }
    for (of, word) in HANDLES {
        let pairs: Vec<_> = all.iter().filter(|constant| constant.handle == Some(of)).collect();
        if !pairs.is_empty() {
            handle(&mut text, word, &pairs);
        }
    }
    for constant in all.iter().filter(|constant| constant.name.starts_with("MPI_MAX_")) {
        let _ = writeln!(text, "pub(crate) const {}: usize = {};", constant.name, constant.foreign);
    }
    for name in SPECIAL {
        if let Some(constant) = all.iter().find(|constant| constant.name == name) {
            let _ = writeln!(
                text,
                "pub(crate) const FOREIGN_{}: isize = {};",
                &name[4..],
                constant.foreign
            );
        }
    }
    if let Some(one) = all.iter().find(|constant| constant.name == "MPI_DISPLACEMENT_CURRENT") {
        let _ = writeln!(
            text,
            "pub(crate) fn displacement_in(value: i64) -> i64 \
             {{ if value == {} {{ {} }} else {{ value }} }}",
            one.foreign, one.value
        );
    }
    text
}

/// Whether the constant is the key of a predefined attribute.
pub(crate) fn is_predefined_key(name: &str) -> bool {
    let keys = NUMBERS.iter().filter(|(set, _)| *set == "keyval");
    name != "MPI_KEYVAL_INVALID" && keys.flat_map(|(_, names)| *names).any(|key| *key == name)
}

/// The patterns of the error classes that the other ABI lacks, which become MPI_ERR_OTHER there.
fn lacking_classes(all: &[ForeignConstant]) -> String {
    let is_lacking = |class: &&ErrorClass| all.iter().all(|one| one.name != class.name);
    let numbers: Vec<_> =
        ERROR_CLASSES.iter().filter(is_lacking).map(|class| class.class.to_string()).collect();
    let other = all.iter().find(|one| one.name == "MPI_ERR_OTHER");
    match other {
        Some(other) if !numbers.is_empty() => {
            format!("{} => {},", numbers.join(" | "), other.foreign)
        }
        _ => String::new(),
    }
}

/// The conversions of a set of numbers.
struct Numbers<'a> {
    name: &'a str,
    pairs: Vec<&'a ForeignConstant>,
    /// Numbers of a program that are no constants, but would be constants in the standard ABI, and
    /// the numbers for which they stand. The library refuses these.
    stray: Vec<(i64, i64)>,
    /// The last error codes of both ABIs: codes that the program adds are above.
    last: Option<&'a ForeignConstant>,
    /// The arms for error classes that the other ABI lacks.
    lacking: String,
}

/// A bit that no constant has.
const STRAY: i64 = 1 << 30;

impl<'a> Numbers<'a> {
    fn new(name: &'a str, prefixes: &[&str], all: &'a [ForeignConstant]) -> Numbers<'a> {
        let pairs = set(all, prefixes);
        let standard = of_standard(prefixes);
        let is_code = name == "code";
        let last = all.iter().find(|one| is_code && one.name == "MPI_ERR_LASTCODE");
        let is_known = |number: &i64| {
            pairs.iter().any(|one| one.foreign == *number)
                || last.is_some_and(|last| *number > last.foreign)
        };
        let stray = standard.iter().filter(|number| !is_known(number)).map(|number| {
            // The number of another constant takes its place, if it is free in the standard ABI.
            let of = |place: &i64| Some(pairs.iter().find(|one| one.value == *place)?.foreign);
            let mut places = iter::successors(of(number), of).take(pairs.len());
            let place = places.find(|place| !standard.contains(place));
            (*number, place.unwrap_or(number ^ STRAY))
        });
        Numbers {
            name,
            stray: if pairs.is_empty() { Vec::new() } else { stray.collect() },
            pairs,
            last,
            lacking: if is_code { lacking_classes(all) } else { String::new() },
        }
    }

    fn text(&self) -> String {
        let inward = self.pairs.iter().map(|one| (one.foreign, one.value));
        let outward = || self.pairs.iter().map(|one| (one.value, one.foreign));
        let back = self.stray.iter().map(|(number, place)| (*place, *number));
        let mut inward = arms(inward.chain(self.stray.iter().copied()));
        let mut shown = arms(outward().chain(back));
        let mut out = format!("{}{}", arms(outward()), self.lacking);
        if let Some(ForeignConstant { value, foreign, .. }) = self.last {
            let added = |from: &i64, to: &i64| {
                format!("other if other > {from} => other.wrapping_add({}), ", to - from)
            };
            // Numbers between are added codes in the standard ABI alone, so they become negative.
            let between = |number: &str| {
                let (first, last) = (value + 1, foreign);
                format!("other if ({first}..={last}).contains(&{number}) => other.wrapping_neg(), ")
            };
            inward += &(added(foreign, value) + &between("other"));
            out += &added(value, foreign);
            shown += &(between("other.wrapping_neg()") + &added(value, foreign));
        }
        self.function("in", &inward) + &self.function("out", &out) + &self.function("shown", &shown)
    }

    fn function(&self, end: &str, arms: &str) -> String {
        format!(
            "#[inline(always)] pub(crate) fn {}_{end}(value: c_int) -> c_int \
             {{ match value {{ {arms}other => other }} }}\n",
            self.name
        )
    }
}

/// The arms of a match. The first of several for one number counts.
fn arms(pairs: impl Iterator<Item = (i64, i64)>) -> String {
    let mut text = String::new();
    let mut seen = Vec::new();
    for (from, to) in pairs {
        if !seen.contains(&from) {
            seen.push(from);
            let _ = write!(text, "{from} => {to}, ");
        }
    }
    text
}

/// The numbers of the standard ABI's constants whose names begin with one of the prefixes.
fn of_standard(prefixes: &[&str]) -> BTreeSet<i64> {
    let classes = ERROR_CLASSES.iter().chain(extensions::ERROR_CLASSES);
    let classes = classes.map(|class| (class.name, i64::from(class.class)));
    let all = CONSTANTS.iter().map(|one| (one.name, one.value)).chain(classes);
    let is_in = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    all.filter(|(name, _)| is_in(name)).map(|(_, value)| value).collect()
}

/// The conversions of a set of bits. Bits of a program that are no constants, but would be
/// constants in the standard ABI, are moved to the upper half, and the library refuses them.
fn bits(name: &str, all: &[&ForeignConstant]) -> String {
    let known = all.iter().fold(0, |bits, one| bits | one.foreign);
    let standard = all.iter().fold(0, |bits, one| bits | one.value);
    let stray = standard & !known;
    let term = |from: i64, to: i64| format!(" | (if value & {from} == 0 {{ 0 }} else {{ {to} }})");
    let inward: String = all.iter().map(|one| term(one.foreign, one.value)).collect();
    let outward: String = all.iter().map(|one| term(one.value, one.foreign)).collect();
    format!(
        "pub(crate) fn {name}_in(value: c_int) -> c_int \
         {{ value & {} | (value & {stray}) << 16{inward} }}\n\
         pub(crate) fn {name}_out(value: c_int) -> c_int \
         {{ value & {} | value >> 16 & {stray}{outward} }}\n",
        !(known | stray) as i32,
        !(standard | stray << 16) as i32
    )
}

/// The search for a handle in a table, in which a product gives each number a place of its own.
fn table(handles: &BTreeMap<i32, i64>) -> String {
    const BITS: u32 = 9;
    let place = |factor: u32, key: i32| {
        (key.cast_unsigned().wrapping_mul(factor) >> (u32::BITS - BITS)) as usize
    };
    let is_perfect = |factor: &u32| {
        let places: BTreeSet<usize> = handles.keys().map(|key| place(*factor, *key)).collect();
        places.len() == handles.len()
    };
    // The odd multiples of the golden ratio are spread evenly.
    let mut factors = (0..1_000_000_u32).map(|number| (2 * number + 1).wrapping_mul(0x9e37_79b9));
    let factor = factors.find(is_perfect).unwrap_or_else(|| panic!("no factor for {handles:?}"));
    let mut entries = vec![(0, 0); 1 << BITS];
    for (key, value) in handles {
        entries[place(factor, *key)] = (*key, *value);
    }
    format!(
        "static TABLE: [(i32, u16); {}] = {entries:?}; let key = value as i32; \
         let place = key.cast_unsigned().wrapping_mul({factor}) >> {}; \
         let (known, handle) = TABLE[place as usize]; \
         (known == key && handle != 0).then_some(usize::from(handle))",
        1 << BITS,
        u32::BITS - BITS
    )
}

/// More handles than this are found in a table, not by comparisons.
const MOST_COMPARED: usize = 16;

/// The predefined handles.
fn handle(text: &mut String, word: &str, all: &[&ForeignConstant]) {
    let mut handles = BTreeMap::new();
    for one in all {
        handles.entry(one.foreign as i32).or_insert(one.value);
    }
    let body = match handles.len() {
        0..=MOST_COMPARED => {
            let arms =
                handles.iter().map(|(foreign, value)| format!("{foreign} => Some({value}),"));
            format!("match value {{ {} _ => None }}", arms.collect::<String>())
        }
        _ => table(&handles),
    };
    let _ = writeln!(
        text,
        "#[inline(always)] pub(crate) fn predefined_{word}_in(value: i64) -> Option<usize> \
         {{ {body} }}"
    );
    let _ = writeln!(
        text,
        "#[inline(always)] pub(crate) fn predefined_{word}_out(value: usize) -> Option<i64> \
         {{ match value {{"
    );
    // Names beyond the standard come last: programs of the other ABI know these better.
    let mut seen = Vec::new();
    for one in all.iter().rev() {
        if !seen.contains(&one.value) {
            seen.push(one.value);
            let _ = writeln!(text, "{} => Some({}),", one.value, one.foreign as i32);
        }
    }
    let _ = writeln!(text, "_ => None }} }}");
}
