//! Reads YAML and JSON as one kind of tree with line numbers.
//!
//! JSON is read as JSON, because some texts have another meaning in YAML. Only the unambiguous part of YAML is accepted:
//! one document, no duplicate names, no anchors (with which a few lines can expand to gigabytes), no tags. No message
//! contains a value.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::value::RawValue;

use super::error::Problem;
use butler_base::json::members;
use butler_source::hcl::nests_too_deep;

/// The deepest nesting, as in all JSON that the runner parses.
const MAX_DEPTH: usize = 64;

/// A value and its first line, from 1. It can be a secret, so there is no `Debug`.
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

/// A value. Numbers keep their text.
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A name with its value; no other entry of the map has this name.
pub(super) struct Entry {
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) node: Node,
}

impl Value {
    /// The kind of value, for messages.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// Reads `text` as JSON if it is valid JSON or must be, else as YAML. A text that begins like an object must be JSON:
/// in YAML, a comment that some users write into JSON would be part of a value.
///
/// # Errors
/// The first problem.
pub(super) fn read(text: &str, is_json: bool) -> Result<Node, Problem> {
    let must = is_json || text.trim_start().starts_with('{');
    if nests_too_deep(text) {
        return if must { Err(too_deep(1)) } else { read_yaml(text) };
    }
    match serde_json::from_str::<&RawValue>(text) {
        Ok(root) => {
            let ends = text.match_indices('\n').map(|(index, _)| index).collect();
            Json { start: text.as_ptr() as usize, ends }.node(root.get())
        }
        Err(error) if must => {
            let column = error.column();
            let text = format!("no JSON (column {column}), which knows no comments");
            Err(Problem::new(error.line().max(1), text))
        }
        Err(_) => read_yaml(text),
    }
}

/// The lines of values in a JSON text, computed from their addresses.
struct Json {
    start: usize,
    /// The offsets of the ends of its lines.
    ends: Vec<usize>,
}

impl Json {
    fn line(&self, part: &str) -> usize {
        let index = (part.as_ptr() as usize).saturating_sub(self.start);
        self.ends.partition_point(|end| *end < index) + 1
    }

    fn node(&self, json: &str) -> Result<Node, Problem> {
        let line = self.line(json);
        let broken = |_| Problem::new(line, "no JSON");
        let value = match json.as_bytes().first() {
            Some(b'n') => Value::Null,
            Some(b't') => Value::Bool(true),
            Some(b'f') => Value::Bool(false),
            Some(b'"') => Value::Text(serde_json::from_str(json).map_err(broken)?),
            Some(b'[') => {
                let members: Vec<&RawValue> = serde_json::from_str(json).map_err(broken)?;
                let nodes = members.into_iter().map(|member| self.node(member.get()));
                Value::List(nodes.collect::<Result<_, _>>()?)
            }
            Some(b'{') => {
                let mut map = Map::default();
                for (name, member) in members(json).map_err(broken)? {
                    let node = self.node(member.get())?;
                    map.add(node.line, name, node)?;
                }
                Value::Map(map.entries)
            }
            _ => Value::Number(json.to_owned()),
        };
        Ok(Node { line, value })
    }
}

/// A map without duplicate names.
#[derive(Default)]
struct Map {
    entries: Vec<Entry>,
    names: std::collections::HashSet<String>,
}

impl Map {
    fn add(&mut self, line: usize, name: String, node: Node) -> Result<(), Problem> {
        if !self.names.insert(name.clone()) {
            return Err(Problem::new(line, format!("`{}` is given twice", shown(&name))));
        }
        self.entries.push(Entry { line, name, node });
        Ok(())
    }
}

/// A collection that is not complete yet.
enum Open {
    List(usize, Vec<Node>),
    /// With the name that waits for its value.
    Map(usize, Map, Option<(usize, String)>),
}

fn read_yaml(text: &str) -> Result<Node, Problem> {
    let mut open: Vec<Open> = Vec::new();
    let mut root = None;
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let column = error.marker().col() + 1;
            let text = format!("no YAML (column {column}: {})", error.info());
            Problem::new(error.marker().line().max(1), text)
        })?;
        let line = span.start.line();
        refuse_extras(&event, line)?;
        let complete = match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(Problem::new(line, "begins a second document; one is taken"));
                }
                continue;
            }
            Event::Scalar(text, style, ..) => Node { line, value: scalar(text, style) },
            Event::SequenceStart(..) => {
                open.push(Open::List(line, Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(line, Map::default(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(line, nodes)) => Node { line, value: Value::List(nodes) },
                Some(Open::Map(line, map, _)) => Node { line, value: Value::Map(map.entries) },
                None => continue,
            },
            _ => continue,
        };
        if open.len() >= MAX_DEPTH {
            return Err(too_deep(line));
        }
        match open.last_mut() {
            None => root = Some(complete),
            Some(Open::List(_, nodes)) => nodes.push(complete),
            Some(Open::Map(_, map, waiting)) => match waiting.take() {
                Some((line, name)) => map.add(line, name, complete)?,
                None => *waiting = Some((complete.line, name(complete)?)),
            },
        }
    }
    Ok(root.unwrap_or(Node { line: 1, value: Value::Null }))
}

/// Refuses anchors, aliases and tags.
fn refuse_extras(event: &Event<'_>, line: usize) -> Result<(), Problem> {
    let (anchor, tag) = match event {
        Event::Alias(_) => (1, None),
        Event::Scalar(_, _, anchor, tag) => (*anchor, tag.as_ref()),
        Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => {
            (*anchor, tag.as_ref())
        }
        _ => (0, None),
    };
    if anchor != 0 {
        return Err(Problem::new(line, "has an anchor or an alias; write the value out"));
    }
    if tag.is_some() {
        return Err(Problem::new(line, "has a tag; write the value without it"));
    }
    Ok(())
}

/// The value of a scalar (YAML 1.2, core schema). A number that is not valid in JSON, such as `007`, is text: it is more
/// often a name than a number.
fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::Text(text.into_owned());
    }
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        number if is_number(number) => Value::Number(text.into_owned()),
        _ => Value::Text(text.into_owned()),
    }
}

fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && serde_json::from_str::<&RawValue>(text).is_ok()
}

/// The name that a node in the position of a key represents.
fn name(node: Node) -> Result<String, Problem> {
    match node.value {
        Value::Text(text) | Value::Number(text) => Ok(text),
        Value::Bool(value) => Ok(value.to_string()),
        other => {
            Err(Problem::new(node.line, format!("has {} in the place of a name", other.kind())))
        }
    }
}

/// A name from the document for a message: shortened and escaped.
pub(super) fn shown(name: &str) -> String {
    const LONGEST: usize = 80;
    let end = name.floor_char_boundary(LONGEST);
    let rest = if end < name.len() { "..." } else { "" };
    format!("{}{rest}", name[..end].escape_debug())
}

fn too_deep(line: usize) -> Problem {
    Problem::new(line, format!("nests deeper than {MAX_DEPTH} levels"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree in one line, with the line of each value.
    fn tree(node: &Node) -> String {
        let value = match &node.value {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Number(text) => format!("#{text}"),
            Value::Text(text) => format!("{text:?}"),
            Value::List(nodes) => {
                format!("[{}]", nodes.iter().map(tree).collect::<Vec<_>>().join(" "))
            }
            Value::Map(entries) => {
                let each = entries.iter();
                let each = each.map(|it| format!("{}@{}={}", it.name, it.line, tree(&it.node)));
                format!("{{{}}}", each.collect::<Vec<_>>().join(" "))
            }
        };
        format!("{value}:{}", node.line)
    }

    fn problem(text: &str) -> String {
        read(text, false).err().map_or_else(|| "none".to_owned(), |problem| problem.to_string())
    }

    #[test]
    fn yaml_and_json_are_the_same_tree() {
        let yaml = "# why\na: [1.10, -2e40, yes, true, ~, 007]\nb:\n  c: 'x'\n  d: |\n    e\n";
        let json = "\n{\"a\": [1.10, -2e40, \"yes\", true, null, \"007\"],\n\"b\": {\n\"c\": \"x\",\n\"d\": \"e\\n\"}}";
        assert_eq!(
            tree(&read(yaml, false).ok().unwrap()),
            "{a@2=[#1.10:2 #-2e40:2 \"yes\":2 true:2 null:2 \"007\":2]:2 b@3={c@4=\"x\":4 d@5=\"e\\n\":6}:4}:2"
        );
        assert_eq!(
            tree(&read(json, false).ok().unwrap()),
            "{a@2=[#1.10:2 #-2e40:2 \"yes\":2 true:2 null:2 \"007\":2]:2 b@3={c@4=\"x\":4 d@5=\"e\\n\":5}:3}:2"
        );
        assert_eq!(tree(&read("", false).ok().unwrap()), "null:1");
        assert_eq!(
            tree(&read("{\"a\": \"\\ud83d\\ude00\\/\"}", false).ok().unwrap()),
            "{a@1=\"😀/\":1}:1"
        );
    }

    #[test]
    fn text_that_must_be_json_is_not_read_as_yaml() {
        for text in [
            "{\"a\": 15 // seconds\n}",
            "{\"a\": 15 # seconds\n}",
            " {\"a\": 15,}",
            "{a: 15}",
            "{\"a\": 1,,}",
        ] {
            assert!(problem(text).contains("no JSON (column "), "{text}: {}", problem(text));
        }
        for (text, is_json) in [("a: 15", true), ("a: 15", false), ("[15]", true)] {
            let taken = read(text, is_json).is_ok();
            assert_eq!(taken, !is_json || text == "[15]", "{text}");
        }
        assert!(read("", true).is_err());
    }

    #[test]
    fn ambiguous_yaml_is_refused_with_its_line() {
        for (text, expected) in [
            ("a: 1\nb: 2\na: 3", "line 3: `a` is given twice"),
            ("{\"a\": 1,\n\"a\": 2}", "line 2: `a` is given twice"),
            ("a: &x [1]\nb: *x", "line 1: has an anchor or an alias; write the value out"),
            ("a: 1\nb: !!str 1", "line 2: has a tag; write the value without it"),
            ("a: 1\n---\na: 2", "line 2: begins a second document; one is taken"),
            ("? [a]\n: 1", "line 1: has a list in the place of a name"),
        ] {
            assert_eq!(problem(text), expected, "{text}");
        }
        for text in ["a: [1", "a: 'x", "a: {b"] {
            assert!(problem(text).contains("no YAML"), "{text}: {}", problem(text));
        }
        for deep in ["[".repeat(100_000), "{\"a\":".repeat(100), "- ".repeat(70) + "x"] {
            let problem = problem(&deep);
            assert!(problem.contains("deep") || problem.contains("no YAML"), "{problem}");
        }
    }
}
