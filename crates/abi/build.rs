//! Numbers the functions of the table.

use std::env;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

#[allow(dead_code, unused_imports, unreachable_pub)]
#[path = "src/table/mod.rs"]
mod table;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=functions");
    println!("cargo::rerun-if-changed=src/table");
    let functions = table::functions();
    let standard = functions.iter().filter(|function| !function.is_extension()).count();
    let mut text = format!(
        "/// The number of functions of the standard, each of which is exported twice.\n\
         pub const FUNCTION_COUNT: usize = {standard};\n\
         /// The number of functions beyond the standard.\n\
         pub(crate) const EXTENSION_COUNT: usize = {};\n",
        functions.len() - standard
    );
    let names: String = functions.iter().map(|function| function.name.clone() + "\n").collect();
    writeln!(text, "const NAMES: &str = {names:?};")?;
    writeln!(text, "#[allow(non_upper_case_globals)]\nimpl FuncId {{")?;
    for (at, function) in functions.iter().enumerate() {
        writeln!(text, "/// `{}`", function.prototype())?;
        writeln!(text, "pub const {}: FuncId = FuncId({at});", function.name)?;
    }
    text += "}\n";
    fs::write(Path::new(&env::var("OUT_DIR")?).join("functions.rs"), text)?;
    Ok(())
}
