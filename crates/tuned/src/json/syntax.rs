//! A parser for JSON (RFC 8259) that records the position of every value. It accepts a comma after
//! the last item of a list, as in the example of Open MPI's guide.

use crate::position::{Position, Problem, TextCursor};

const MAX_DEPTH: usize = 32;

#[derive(Clone, Debug)]
pub(super) struct JsonNode {
    pub(super) at: Position,
    pub(super) value: JsonValue,
}

/// A number is its text.
#[derive(Clone, Debug)]
pub(super) enum JsonValue {
    Null,
    Bool,
    Number(String),
    Text(String),
    List(Vec<JsonNode>),
    Object(Vec<JsonMember>),
}

#[derive(Clone, Debug)]
pub(super) struct JsonMember {
    pub(super) at: Position,
    pub(super) name: String,
    pub(super) node: JsonNode,
}

impl JsonValue {
    pub(super) fn shown(&self) -> String {
        match self {
            JsonValue::Null => "null".to_string(),
            JsonValue::Bool => "a truth value".to_string(),
            JsonValue::Number(text) => text.clone(),
            JsonValue::Text(text) => format!("\"{text}\""),
            JsonValue::List(_) => "a list".to_string(),
            JsonValue::Object(_) => "an object".to_string(),
        }
    }
}

pub(super) fn parse(text: &str) -> Result<JsonNode, Problem> {
    let mut parser = JsonParser { cursor: TextCursor::new(text), depth: 0 };
    let node = parser.value("a value")?;
    parser.blanks();
    match parser.cursor.peek() {
        None => Ok(node),
        Some(_) => Err(parser.unexpected("the end of the file")),
    }
}

struct JsonParser<'a> {
    cursor: TextCursor<'a>,
    depth: usize,
}

impl JsonParser<'_> {
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

    fn value(&mut self, expected: &str) -> Result<JsonNode, Problem> {
        self.blanks();
        let at = self.cursor.at();
        if self.depth == MAX_DEPTH {
            return Err(Problem::new(
                at,
                format!("expected at most {MAX_DEPTH} values in each other"),
            ));
        }
        self.depth += 1;
        let value = match self.cursor.peek() {
            Some('{') => JsonValue::Object(self.list('}', Self::member)?),
            Some('[') => JsonValue::List(self.list(']', |parser| parser.value("a value"))?),
            Some('"') => JsonValue::Text(self.text()?),
            Some('-' | '0'..='9') => self.number()?,
            Some('a'..='z') => self.word(expected)?,
            _ => return Err(self.unexpected(expected)),
        };
        self.depth -= 1;
        Ok(JsonNode { at, value })
    }

    /// The items up to the bracket `end`, separated by commas.
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

    fn member(&mut self) -> Result<JsonMember, Problem> {
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
        Ok(JsonMember { at, name, node })
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
        escaped.ok_or_else(|| {
            Problem::new(at, "expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX")
        })
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

    fn number(&mut self) -> Result<JsonValue, Problem> {
        let at = self.cursor.at();
        let text = self.cursor.take_while(|c| matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9'));
        // Unlike JSON, Rust accepts leading zeros and a point at the end.
        let digits = text.strip_prefix('-').unwrap_or(text);
        let whole = digits.split(['.', 'e', 'E']).next().unwrap_or_default();
        let is_json = !whole.is_empty()
            && (whole == "0" || !whole.starts_with('0'))
            && !text.contains(".e")
            && !text.contains(".E")
            && !text.ends_with('.')
            && text.parse::<f64>().is_ok();
        match is_json {
            true => Ok(JsonValue::Number(text.to_string())),
            false => Err(Problem::new(at, format!("expected a number, found '{text}'"))),
        }
    }

    fn word(&mut self, expected: &str) -> Result<JsonValue, Problem> {
        let at = self.cursor.at();
        match self.cursor.take_while(|c| c.is_ascii_alphanumeric()) {
            "null" => Ok(JsonValue::Null),
            "true" | "false" => Ok(JsonValue::Bool),
            other => Err(Problem::new(at, format!("expected {expected}, found '{other}'"))),
        }
    }
}
