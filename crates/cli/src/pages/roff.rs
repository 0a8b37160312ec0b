//! Manual pages in the language of man(7).

pub(super) struct RoffPage {
    name: &'static str,
    text: String,
}

impl RoffPage {
    /// A page with its title and the line that `apropos` shows.
    pub(super) fn new(name: &'static str, section: &str, what: &str) -> RoffPage {
        let version = env!("CARGO_PKG_VERSION");
        let title = format!(
            ".TH {} {section} \"\" \"OxMPI {version}\" \"OxMPI\"\n",
            escaped(&name.to_uppercase())
        );
        RoffPage {
            name,
            text: format!("{title}.SH NAME\n{} \\- {}\n", escaped(name), escaped(what)),
        }
    }

    pub(super) fn heading(&mut self, text: &str) {
        self.text += &format!(".SH {}\n", escaped(text));
    }

    /// Adds paragraphs, separated by empty lines. A paragraph with an indented line or a gap in a
    /// line is not filled.
    pub(super) fn text(&mut self, text: &str) {
        for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
            if paragraph.contains("  ") {
                self.literal(paragraph.trim_matches('\n'));
            } else {
                self.text += &format!(".PP\n{}\n", escaped(paragraph.trim_matches('\n')));
            }
        }
    }

    pub(super) fn literal(&mut self, text: &str) {
        self.text += &format!(".PP\n.EX\n{}\n.EE\n", escaped(text));
    }

    pub(super) fn entry(&mut self, name: &str, values: &str, what: &str) {
        let values =
            if values.is_empty() { String::new() } else { format!(" \\fI{}\\fR", escaped(values)) };
        self.text += &format!(".TP\n\\fB{}\\fR{values}\n{}\n", escaped(name), escaped(what));
    }

    pub(super) fn see_also(mut self, pages: &[(&str, &str)]) -> String {
        let others: Vec<String> = pages
            .iter()
            .filter(|(name, _)| *name != self.name)
            .map(|(name, section)| format!("\\fB{}\\fR({section})", escaped(name)))
            .collect();
        self.text += &format!(".SH SEE ALSO\n{}\n", others.join(", "));
        self.text
    }
}

pub(super) fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    let lines = text
        .split('\n')
        .map(|line| if line.starts_with('.') { format!("\\&{line}") } else { line.to_string() });
    lines.collect::<Vec<_>>().join("\n")
}
