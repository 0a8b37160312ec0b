//! `docs/messages.md`: every message of ranks, launchers, agents, daemons and tools, from its type.

use std::fs;

use crate::support::root;

const HEAD: &str = "\
# Messages of the launcher

`cargo xtask docs` writes this page from the types of the messages; do not edit it. To add a
message, add a variant with its description to the type. If other variants change by that (a new
last variant changes none), count `VERSION` of the file up. Postcard encodes numbers, texts and
lists (`crates/rt-client/src/codec.rs`). Both sides check the version: with another one they say
both versions and the remedy.
";

/// The files, and the types in each that are messages.
const SOURCES: [(&str, &[&str]); 8] = [
    ("crates/rt-client/src/control.rs", &["Request", "Reply"]),
    ("crates/rt-proto/src/agent/to_agent.rs", &["ToAgent"]),
    ("crates/rt-proto/src/agent/from_agent.rs", &["FromAgent", "ProcessEvent"]),
    ("crates/rt-proto/src/agent/host.rs", &["HostOrder", "HostReport"]),
    ("crates/rt-proto/src/agent/tree.rs", &["Receivers", "BranchRound"]),
    ("crates/rt-proto/src/link.rs", &["LinkMessage"]),
    ("crates/rt-proto/src/daemon.rs", &["DaemonMessage"]),
    ("crates/rt-proto/src/tool.rs", &["ToolRequest", "ToolReply"]),
];

/// A comment as a line of Markdown: without the brackets of links.
fn plain(comment: &[&str]) -> String {
    let mut text = comment.join(" ").replace("[`", "`").replace("`]", "`");
    for path in ["crate::", "super::", "oxmpi_rt_client::"] {
        text = text.replace(path, "");
    }
    text
}

/// The description of an enum, and its variants with theirs, from a formatted source file.
fn variants(source: &str, name: &str) -> (String, Vec<(String, String)>) {
    let (mut comment, mut all, mut of_type) = (Vec::new(), Vec::new(), None);
    for line in source.lines() {
        let indent = line.len() - line.trim_start().len();
        let word = line.trim();
        if let Some(text) = word.strip_prefix("///") {
            if indent <= 4 {
                comment.push(text.trim());
            }
            continue;
        }
        if word.starts_with("#[") {
            continue;
        }
        if word == format!("pub enum {name} {{") {
            of_type = Some(plain(&comment));
        } else if line == "}" && of_type.is_some() {
            return (of_type.unwrap_or_default(), all);
        } else if of_type.is_some() && indent == 4 && word.starts_with(char::is_uppercase) {
            let end = word.find(|c: char| !c.is_alphanumeric()).unwrap_or(word.len());
            all.push((word[..end].to_string(), plain(&comment)));
        }
        if indent <= 4 {
            comment.clear();
        }
    }
    panic!("no enum {name}");
}

#[test]
fn the_page_of_messages_has_all_types() {
    let mut page = HEAD.to_string();
    for (file, types) in SOURCES {
        let source = fs::read_to_string(root().join(file)).unwrap();
        for name in types {
            let (of_type, all) = variants(&source, name);
            page += &format!(
                "\n## {name}\n\n{of_type}\n\nIn `{file}`.\n\n| message | meaning |\n|---|---|\n"
            );
            for (variant, text) in all {
                assert!(!text.is_empty(), "{name}::{variant} in {file} has no description");
                page += &format!("| {variant} | {text} |\n");
            }
        }
    }
    super::is_current("messages.md", &page);
}
