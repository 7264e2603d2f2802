//! Finds the parts of a plan's JSON that Terraform marks as sensitive, in a resource change, a
//! resource's values, an output, or a module call.
//!
//! Names, and not positions, relate marks to values, so that positions that a newer version adds
//! work too (plan format 1.x; `terraform show -json`, JSON output format). Names inside values have
//! no meaning and may be secrets; Terraform's own names are handled separately.

use std::collections::BTreeSet;
use std::io::Result;

use serde_json::value::RawValue;

use super::labels::is_label;
use super::members::{Members, elements, members};

/// The depth to which marks are searched. A deeper piece that may contain a mark counts as marked
/// as a whole: the stack is limited, and Terraform's own types are much flatter.
pub(super) const MAX_DEPTH: usize = 128;

/// Members that contain values of the user, in which names have no meaning.
const VALUES: [&str; 10] = [
    "before",
    "after",
    "value",
    "default",
    "constant_value",
    "config_values",
    "index",
    "identity",
    "before_identity",
    "after_identity",
];

/// Members that mirror the shape of values.
const MIRRORS: [&str; 3] = ["sensitive_values", "after_unknown", "unknown"];

/// Members that refer to a part of a value: the name of an attribute, then keys and numbers.
const PATHS: [&str; 2] = ["attribute", "replace_paths"];

/// Members whose own members are named by the user.
const NAMED: [&str; 5] =
    ["variables", "outputs", "output_changes", "module_calls", "provider_config"];

/// Receives the pieces of a plan in their order.
pub(super) trait PieceVisitor {
    /// Brackets, commas, names of Terraform's.
    fn layout(&mut self, _text: &str) -> Result<()> {
        Ok(())
    }

    /// The name of a member of a value.
    fn name(&mut self, _name: &str) -> Result<()> {
        Ok(())
    }

    /// Terraform's own words; in a type, names of members too.
    fn label(&mut self, _json: &str) -> Result<()> {
        Ok(())
    }

    /// A value without a mark.
    fn open(&mut self, _json: &str) -> Result<()> {
        Ok(())
    }

    /// A value under a mark.
    fn hidden(&mut self, _json: &str) -> Result<()> {
        Ok(())
    }

    /// A value without a mark that was `earlier` before the change.
    fn open_changed(&mut self, json: &str, _earlier: &str) -> Result<()> {
        self.open(json)
    }

    /// A value under a mark that was another one before the change.
    fn hidden_changed(&mut self, json: &str) -> Result<()> {
        self.hidden(json)
    }

    /// A piece whose marks were not inspected, in the member `name`.
    fn piece(&mut self, name: &str, json: &RawValue) -> Result<()>
    where
        Self: Sized,
    {
        visit_terraform_value((name, json), 0, self)
    }

    /// A root variable that is sensitive.
    fn variable(&mut self, json: &RawValue) -> Result<()>
    where
        Self: Sized,
    {
        visit_sensitive_variable(json, self)
    }
}

/// A root variable that is sensitive.
pub(super) fn visit_sensitive_variable(
    json: &RawValue,
    target: &mut impl PieceVisitor,
) -> Result<()> {
    visit_terraform_object(&members(json)?, target, |name, value, target| match name {
        "value" => target.hidden(value.get()),
        _ => target.open(value.get()),
    })
}

/// Whether `json` is an object with `sensitive: true`.
pub(super) fn is_sensitive(json: &RawValue) -> bool {
    members(json).is_ok_and(|members| members.is_marked_sensitive())
}

/// Whether no mark in `json`, a piece of a plan, can hide a part of it. Decided from the text
/// alone: a value that looks like a mark counts as one.
pub(super) fn hides_nothing(json: &RawValue) -> bool {
    let text = json.get();
    let begins_letter = |at: usize| matches!(text.as_bytes().get(at), None | Some(b'4'..=b'7'));
    // A name can contain escapes, although Terraform does not write such names.
    if memchr::memmem::find_iter(text.as_bytes(), b"\\u00").any(|at| begins_letter(at + 4)) {
        return false;
    }
    memchr::memmem::find_iter(text.as_bytes(), b"sensitive").all(|at| {
        let rest = &text[at + "sensitive".len()..];
        let rest = rest.strip_prefix("_values").unwrap_or(rest);
        let Some(rest) = rest.strip_prefix('"') else { return true };
        let Some(marks) = rest.trim_start().strip_prefix(':') else { return true };
        let mut marks = serde_json::Deserializer::from_str(marks).into_iter::<&RawValue>();
        matches!(marks.next(), Some(Ok(marks)) if !contains_true(marks))
    })
}

/// Whether `marks` contain `true`.
pub(super) fn contains_true(marks: &RawValue) -> bool {
    memchr::memmem::find(marks.get().as_bytes(), b"true").is_some()
}

/// Terraform's own objects, in the member `name`.
pub(super) fn visit_terraform_value(
    (name, json): (&str, &RawValue),
    depth: usize,
    target: &mut impl PieceVisitor,
) -> Result<()> {
    let text = json.get();
    if depth == MAX_DEPTH {
        let is_open = memchr::memmem::find(text.as_bytes(), b"sensitive").is_none();
        return if is_open { target.open(text) } else { target.hidden(text) };
    }
    match text.as_bytes().first() {
        _ if name == "type" => target.label(text),
        Some(b'[') => visit_array(json, target, |_, element, target| {
            visit_terraform_value((name, element), depth + 1, target)
        }),
        Some(b'{') => {
            let members = members(json)?;
            visit_terraform_object(&members, target, |name, value, target| {
                visit_member(&members, (name, value), depth + 1, target)
            })
        }
        _ if is_label(name) => target.label(text),
        _ => target.open(text),
    }
}

/// One member of one of Terraform's own objects.
fn visit_member(
    siblings: &Members<'_>,
    (name, value): (&str, &RawValue),
    depth: usize,
    target: &mut impl PieceVisitor,
) -> Result<()> {
    if let Some(marks) = siblings.marks_of(name) {
        let earlier = siblings.find("before").filter(|_| name == "after");
        return visit_marked(value, marks, earlier, depth, target);
    }
    match name {
        "value" | "default" if siblings.is_marked_sensitive() => target.hidden(value.get()),
        "expression" if siblings.is_marked_sensitive() => visit_sensitive_expression(value, target),
        "expressions" => match siblings.find("module") {
            Some(module) => visit_arguments(value, module, depth, target),
            None => visit_expressions(value, depth, target),
        },
        // Of a resource; a state has Terraform's own members in it.
        "values" if siblings.find("address").is_some() => target.open(value.get()),
        name if PATHS.contains(&name) => visit_path(value, depth, target),
        name if VALUES.contains(&name) || MIRRORS.contains(&name) => target.open(value.get()),
        name if name.ends_with("_sensitive") => target.open(value.get()),
        name if NAMED.contains(&name) && value.get().starts_with('{') => {
            visit_terraform_object(&members(value)?, target, |name, value, target| {
                // Such an object is not a string of Terraform's, independent of its name.
                let name = if name == "type" { "" } else { name };
                visit_terraform_value((name, value), depth + 1, target)
            })
        }
        _ => visit_terraform_value((name, value), depth, target),
    }
}

/// Steps into a value: first the name of an attribute, then keys.
fn visit_path(json: &RawValue, depth: usize, target: &mut impl PieceVisitor) -> Result<()> {
    if depth >= MAX_DEPTH || !json.get().starts_with('[') {
        return target.open(json.get());
    }
    visit_array(json, target, |index, step, target| match step.get().as_bytes().first() {
        Some(b'"') if index == 0 => target.label(step.get()),
        _ => visit_path(step, depth + 1, target),
    })
}

/// Expressions by the names of arguments and nested blocks.
fn visit_expressions(json: &RawValue, depth: usize, target: &mut impl PieceVisitor) -> Result<()> {
    match json.get().as_bytes().first() {
        Some(b'{') if depth < MAX_DEPTH => {
            visit_terraform_object(&members(json)?, target, |name, value, target| match name {
                "constant_value" => target.open(value.get()),
                "references" => visit_terraform_value((name, value), depth + 1, target),
                _ => visit_expressions(value, depth + 1, target),
            })
        }
        Some(b'[') if depth < MAX_DEPTH => visit_array(json, target, |_, element, target| {
            visit_expressions(element, depth + 1, target)
        }),
        _ => target.open(json.get()),
    }
}

/// The arguments of a module call: a constant may be assigned to a variable that the module
/// declares sensitive.
fn visit_arguments(
    json: &RawValue,
    module: &RawValue,
    depth: usize,
    target: &mut impl PieceVisitor,
) -> Result<()> {
    let Ok(arguments) = members(json) else { return target.open(json.get()) };
    let module = members(module).unwrap_or_default();
    let declared = module.find("variables").and_then(|json| members(json).ok()).unwrap_or_default();
    let sensitive: BTreeSet<&str> = declared
        .0
        .iter()
        .filter(|(_, json)| is_sensitive(json))
        .map(|(name, _)| name.as_str())
        .collect();
    visit_terraform_object(&arguments, target, |name, value, target| {
        if sensitive.contains(name) {
            visit_sensitive_expression(value, target)
        } else {
            visit_expressions(value, depth, target)
        }
    })
}

/// An expression whose result is sensitive; its constant is sensitive too.
fn visit_sensitive_expression(json: &RawValue, target: &mut impl PieceVisitor) -> Result<()> {
    let Ok(members) = members(json) else { return target.hidden(json.get()) };
    visit_terraform_object(&members, target, |name, value, target| match name {
        "constant_value" => target.hidden(value.get()),
        _ => visit_terraform_value((name, value), 0, target),
    })
}

/// Values, and the marks that mirror their shape: `true` hides a part, `false` and an absent mark
/// do not. If the shapes differ, everything is hidden. `earlier` is the value before a change; without it, all values are
/// new.
pub(super) fn visit_marked(
    json: &RawValue,
    marks: &RawValue,
    earlier: Option<&RawValue>,
    depth: usize,
    target: &mut impl PieceVisitor,
) -> Result<()> {
    let text = json.get();
    if !contains_true(marks) {
        return visit_open(json, earlier, depth, target);
    }
    match (text.as_bytes().first(), marks.get().as_bytes().first()) {
        (Some(b'{'), Some(b'{')) if depth < MAX_DEPTH => {
            let (marks, earlier) = (members(marks)?, earlier_members(earlier));
            visit_user_object(&members(json)?, target, |name, value, target| {
                let earlier = earlier.find(name);
                match marks.find(name) {
                    Some(marks) => visit_marked(value, marks, earlier, depth + 1, target),
                    None => visit_open(value, earlier, depth + 1, target),
                }
            })
        }
        (Some(b'['), Some(b'[')) if depth < MAX_DEPTH => {
            let (marks, earlier) = (elements(marks)?, earlier_elements(earlier));
            if elements(json)?.len() != marks.len() {
                return target.hidden(text);
            }
            visit_array(json, target, |index, element, target| {
                let earlier = earlier.get(index).copied();
                visit_marked(element, marks[index], earlier, depth + 1, target)
            })
        }
        _ if differs(text, earlier) => target.hidden_changed(text),
        _ => target.hidden(text),
    }
}

/// Values without marks, down to those that have changed.
fn visit_open(
    json: &RawValue,
    earlier: Option<&RawValue>,
    depth: usize,
    target: &mut impl PieceVisitor,
) -> Result<()> {
    let text = json.get();
    let Some(before) = earlier.filter(|_| differs(text, earlier)) else {
        return target.open(text);
    };
    match (text.as_bytes().first(), before.get().as_bytes().first()) {
        (Some(b'{'), Some(b'{')) if depth < MAX_DEPTH => {
            let earlier = earlier_members(earlier);
            visit_user_object(&members(json)?, target, |name, value, target| {
                visit_open(value, earlier.find(name), depth + 1, target)
            })
        }
        (Some(b'['), Some(b'[')) if depth < MAX_DEPTH => {
            let earlier = earlier_elements(earlier);
            visit_array(json, target, |index, element, target| {
                visit_open(element, earlier.get(index).copied(), depth + 1, target)
            })
        }
        _ => target.open_changed(text, before.get()),
    }
}

/// Whether a value has replaced another one.
fn differs(text: &str, earlier: Option<&RawValue>) -> bool {
    earlier.is_some_and(|earlier| earlier.get() != "null" && earlier.get() != text)
}

fn earlier_members(earlier: Option<&RawValue>) -> Members<'_> {
    let object = earlier.filter(|json| json.get().starts_with('{'));
    object.and_then(|json| members(json).ok()).unwrap_or_default()
}

fn earlier_elements(earlier: Option<&RawValue>) -> Vec<&RawValue> {
    let list = earlier.filter(|json| json.get().starts_with('['));
    list.and_then(|json| elements(json).ok()).unwrap_or_default()
}

/// An object with names of Terraform's, or of blocks in the module.
fn visit_terraform_object<T: PieceVisitor>(
    members: &Members<'_>,
    target: &mut T,
    each: impl FnMut(&str, &RawValue, &mut T) -> Result<()>,
) -> Result<()> {
    let name = |name: &str, target: &mut T| target.layout(&serde_json::to_string(name)?);
    visit_members(members, target, name, each)
}

/// An object of the user's.
fn visit_user_object<T: PieceVisitor>(
    members: &Members<'_>,
    target: &mut T,
    each: impl FnMut(&str, &RawValue, &mut T) -> Result<()>,
) -> Result<()> {
    visit_members(members, target, |name, target| target.name(name), each)
}

fn visit_members<T: PieceVisitor>(
    members: &Members<'_>,
    target: &mut T,
    write_name: impl Fn(&str, &mut T) -> Result<()>,
    mut each: impl FnMut(&str, &RawValue, &mut T) -> Result<()>,
) -> Result<()> {
    target.layout("{")?;
    for (index, (name, value)) in members.0.iter().enumerate() {
        target.layout(if index > 0 { "," } else { "" })?;
        write_name(name, target)?;
        target.layout(":")?;
        each(name, value, target)?;
    }
    target.layout("}")
}

fn visit_array<T: PieceVisitor>(
    json: &RawValue,
    target: &mut T,
    mut each: impl FnMut(usize, &RawValue, &mut T) -> Result<()>,
) -> Result<()> {
    target.layout("[")?;
    for (index, element) in elements(json)?.into_iter().enumerate() {
        if index > 0 {
            target.layout(",")?;
        }
        each(index, element, target)?;
    }
    target.layout("]")
}

#[cfg(test)]
#[path = "marks_tests.rs"]
mod tests;
