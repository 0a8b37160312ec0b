//! Manual pages, as text for man(1) and as HTML.

/// A manual page.
#[derive(Debug)]
pub struct ManualPage {
    /// The names; the first one is the title.
    names: Vec<String>,
    section: &'static str,
    /// The line that apropos(1) shows.
    summary: String,
    blocks: Vec<Block>,
}

#[derive(Debug)]
enum Block {
    Heading(String),
    Text(String),
    Literal(String),
    /// A name, its values, and what it means.
    Entry(String, String, String),
    /// Other pages: name and section.
    Pages(Vec<(String, &'static str)>),
}

impl ManualPage {
    /// A page for all of `names` in this section of the manual.
    pub fn new(names: Vec<String>, section: &'static str, summary: &str) -> ManualPage {
        ManualPage { names, section, summary: summary.to_owned(), blocks: Vec::new() }
    }

    /// The title.
    pub fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// Begins a part of the page.
    pub fn heading(&mut self, text: &str) {
        self.blocks.push(Block::Heading(text.to_owned()));
    }

    /// Adds paragraphs, separated by empty lines. A paragraph with an indented line or a gap in a
    /// line is not filled.
    pub fn text(&mut self, text: &str) {
        for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
            let text = paragraph.trim_matches('\n').to_owned();
            self.blocks.push(match text.contains("  ") {
                true => Block::Literal(text),
                false => Block::Text(text),
            });
        }
    }

    /// Adds lines that are not filled.
    pub fn literal(&mut self, text: &str) {
        self.blocks.push(Block::Literal(text.to_owned()));
    }

    /// Adds an entry of a list: a name, its values, and what it means.
    pub fn entry(&mut self, name: &str, values: &str, what: &str) {
        self.blocks.push(Block::Entry(name.to_owned(), values.to_owned(), what.to_owned()));
    }

    /// Names other pages.
    pub fn see_also(&mut self, pages: &[(&str, &'static str)]) {
        let others = pages.iter().filter(|(name, _)| *name != self.name());
        let pages = others.map(|(name, section)| ((*name).to_owned(), *section)).collect();
        self.heading("SEE ALSO");
        self.blocks.push(Block::Pages(pages));
    }

    /// The page in the language of man(7).
    pub fn roff(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let names: Vec<_> = self.names.iter().map(|name| escaped(name)).collect();
        let mut text = format!(
            ".TH {} {} \"\" \"OxMPI {version}\" \"OxMPI\"\n.nh\n.SH NAME\n{} \\- {}\n",
            escaped(&self.name().to_uppercase()),
            self.section,
            names.join(", "),
            escaped(&self.summary)
        );
        for block in &self.blocks {
            text += &match block {
                Block::Heading(heading) => format!(".SH {}\n", escaped(heading)),
                Block::Text(paragraph) => format!(".PP\n{}\n", escaped(paragraph)),
                Block::Literal(lines) => format!(".PP\n.EX\n{}\n.EE\n", escaped(lines)),
                Block::Entry(name, values, what) => {
                    let values = match values.as_str() {
                        "" => String::new(),
                        values => format!(" \\fI{}\\fR", escaped(values)),
                    };
                    format!(".TP\n\\fB{}\\fR{values}\n{}\n", escaped(name), escaped(what))
                }
                Block::Pages(pages) => {
                    let page = |(name, section): &(String, &str)| {
                        format!("\\fB{}\\fR({section})", escaped(name))
                    };
                    pages.iter().map(page).collect::<Vec<_>>().join(", ") + "\n"
                }
            };
        }
        text
    }

    /// The page as a part of an HTML document, with an anchor for each name. Other pages are
    /// `PAGE.html#NAME`, where `file` gives PAGE.
    pub fn html(&self, file: impl Fn(&str) -> String) -> String {
        let anchors: String =
            self.names.iter().map(|name| format!("<a id=\"{}\"></a>", marked_up(name))).collect();
        let mut text = format!(
            "<section>\n<h2>{anchors}{}</h2>\n<p>{}</p>\n",
            marked_up(&self.names.join(", ")),
            marked_up(&self.summary)
        );
        let mut in_list = false;
        for block in &self.blocks {
            let is_entry = matches!(block, Block::Entry(..));
            if is_entry != in_list {
                text += if is_entry { "<dl>\n" } else { "</dl>\n" };
                in_list = is_entry;
            }
            text += &match block {
                Block::Heading(heading) => format!("<h3>{}</h3>\n", marked_up(heading)),
                Block::Text(paragraph) => format!("<p>{}</p>\n", marked_up(paragraph)),
                Block::Literal(lines) => format!("<pre>{}</pre>\n", marked_up(lines)),
                Block::Entry(name, values, what) => format!(
                    "<dt><b>{}</b> <i>{}</i></dt>\n<dd>{}</dd>\n",
                    marked_up(name),
                    marked_up(values),
                    marked_up(what)
                ),
                Block::Pages(pages) => {
                    let link = |(name, _): &(String, &str)| {
                        format!("<a href=\"{0}.html#{1}\">{1}</a>", file(name), marked_up(name))
                    };
                    let links: Vec<_> = pages.iter().map(link).collect();
                    format!("<p>{}</p>\n", links.join(", "))
                }
            };
        }
        if in_list {
            text += "</dl>\n";
        }
        text + "</section>\n"
    }
}

/// The text as the language of man(7) has it.
pub fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    let lines = text
        .split('\n')
        .map(|line| if line.starts_with('.') { format!("\\&{line}") } else { line.to_string() });
    lines.collect::<Vec<_>>().join("\n")
}

/// The text as HTML has it.
pub fn marked_up(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
