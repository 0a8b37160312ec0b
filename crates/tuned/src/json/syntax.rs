//! JSON (RFC 8259) with the place of every value. A comma behind the last of a list is allowed, as in the guide's example.

use crate::position::{Cursor, Position, Problem};

/// How deep values may lie in each other.
const DEEPEST: usize = 32;

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) value: Value,
}

/// A value. A number is its text.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool,
    Number(String),
    Text(String),
    List(Vec<Node>),
    Object(Vec<Member>),
}

/// A member of an object.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) at: Position,
    pub(super) name: String,
    pub(super) node: Node,
}

impl Value {
    /// What it is, for texts.
    pub(super) fn shown(&self) -> String {
        match self {
            Value::Null => "null".to_string(),
            Value::Bool => "a truth value".to_string(),
            Value::Number(text) => text.clone(),
            Value::Text(text) => format!("\"{text}\""),
            Value::List(_) => "a list".to_string(),
            Value::Object(_) => "an object".to_string(),
        }
    }
}

/// Reads the one value that a text is.
pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    let mut reader = Reader { cursor: Cursor::new(text), depth: 0 };
    let node = reader.value("a value")?;
    reader.blanks();
    match reader.cursor.peek() {
        None => Ok(node),
        Some(_) => Err(reader.unexpected("the end of the file")),
    }
}

struct Reader<'a> {
    cursor: Cursor<'a>,
    depth: usize,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        self.cursor.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
    }

    fn unexpected(&self, expected: &str) -> Problem {
        let found = match self.cursor.peek() {
            None => "the end of the file".to_string(),
            Some(c) => format!("'{c}'"),
        };
        Problem::new(self.cursor.at(), format!("expected {expected}, found {found}"))
    }

    fn value(&mut self, expected: &str) -> Result<Node, Problem> {
        self.blanks();
        let at = self.cursor.at();
        if self.depth == DEEPEST {
            return Err(Problem::new(at, format!("expected at most {DEEPEST} values in each other")));
        }
        self.depth += 1;
        let value = match self.cursor.peek() {
            Some('{') => Value::Object(self.list('}', Self::member)?),
            Some('[') => Value::List(self.list(']', |reader| reader.value("a value"))?),
            Some('"') => Value::Text(self.text()?),
            Some('-' | '0'..='9') => self.number()?,
            Some('a'..='z') => self.word(expected)?,
            _ => return Err(self.unexpected(expected)),
        };
        self.depth -= 1;
        Ok(Node { at, value })
    }

    /// What stands between brackets, with commas between.
    fn list<T>(
        &mut self,
        end: char,
        item: impl Fn(&mut Self) -> Result<T, Problem>,
    ) -> Result<Vec<T>, Problem> {
        self.cursor.next();
        let mut items = Vec::new();
        loop {
            self.blanks();
            if self.cursor.peek() == Some(end) {
                break;
            }
            items.push(item(self)?);
            self.blanks();
            match self.cursor.peek() {
                Some(',') => _ = self.cursor.next(),
                Some(c) if c == end => {}
                _ => return Err(self.unexpected(&format!("',' or '{end}'"))),
            }
        }
        self.cursor.next();
        Ok(items)
    }

    fn member(&mut self) -> Result<Member, Problem> {
        let at = self.cursor.at();
        if self.cursor.peek() != Some('"') {
            return Err(self.unexpected("a name in quotes or '}'"));
        }
        let name = self.text()?;
        self.blanks();
        if self.cursor.peek() != Some(':') {
            return Err(self.unexpected("':'"));
        }
        self.cursor.next();
        let node = self.value("a value")?;
        Ok(Member { at, name, node })
    }

    fn text(&mut self) -> Result<String, Problem> {
        self.cursor.next();
        let mut text = String::new();
        loop {
            text.push_str(self.cursor.take_while(|c| c != '"' && c != '\\' && c >= ' '));
            match self.cursor.peek() {
                Some('"') => {
                    self.cursor.next();
                    return Ok(text);
                }
                Some('\\') => text.push(self.escape()?),
                _ => return Err(self.unexpected("'\"' at the end of a text")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Problem> {
        let at = self.cursor.at();
        self.cursor.next();
        let escaped = match self.cursor.next() {
            Some(c @ ('"' | '\\' | '/')) => Some(c),
            Some('b') => Some('\u{8}'),
            Some('f') => Some('\u{c}'),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('u') => self.unicode(),
            _ => None,
        };
        escaped.ok_or_else(|| Problem::new(at, "expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX"))
    }

    fn unicode(&mut self) -> Option<char> {
        let high = self.four_digits()?;
        if !(0xd800..0xdc00).contains(&high) {
            return char::from_u32(high);
        }
        if !self.cursor.rest().starts_with("\\u") {
            return None;
        }
        self.cursor.next();
        self.cursor.next();
        let low = self.four_digits()?;
        let low = low.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
        char::from_u32(0x10000 + ((high - 0xd800) << 10) + low)
    }

    fn four_digits(&mut self) -> Option<u32> {
        (0..4).try_fold(0, |number, _| Some(number * 16 + self.cursor.next()?.to_digit(16)?))
    }

    fn number(&mut self) -> Result<Value, Problem> {
        let at = self.cursor.at();
        let text = self.cursor.take_while(|c| matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9'));
        // The grammar of Rust allows a little more: leading zeros, an end in a point.
        let digits = text.strip_prefix('-').unwrap_or(text);
        let whole = digits.split(['.', 'e', 'E']).next().unwrap_or_default();
        let is_json = !whole.is_empty()
            && (whole == "0" || !whole.starts_with('0'))
            && !text.contains(".e")
            && !text.contains(".E")
            && !text.ends_with('.')
            && text.parse::<f64>().is_ok();
        match is_json {
            true => Ok(Value::Number(text.to_string())),
            false => Err(Problem::new(at, format!("expected a number, found '{text}'"))),
        }
    }

    fn word(&mut self, expected: &str) -> Result<Value, Problem> {
        let at = self.cursor.at();
        match self.cursor.take_while(|c| c.is_ascii_alphanumeric()) {
            "null" => Ok(Value::Null),
            "true" | "false" => Ok(Value::Bool),
            other => Err(Problem::new(at, format!("expected {expected}, found '{other}'"))),
        }
    }
}
