//! The difference between two values of a resource in a plan, attribute by attribute.
//!
//! Values are compared as they are in the plan, and shown as in the redacted plan: a value that is
//! marked as sensitive on either side is listed as changed and not shown, and all other texts pass
//! the redactor. Elements that both lists have are found first, so that an inserted or removed
//! element does not change all others. A string that contains JSON is compared by its content.

use std::fmt::Write as _;
use std::io::Result;

use serde_json::value::RawValue;

use super::clean::PlanCopy;
use super::marked_value::{MarkedValue, ValueKind};
use super::marks::{MAX_DEPTH, PieceVisitor, visit_marked};
use super::members::{Members, elements, members};
use super::path::{Path, PathStep};
use butler_base::secret::MASK;
use butler_result::{AttributeChange, Shown, align};

/// How much of one value is shown, in bytes.
const MAX_VALUE_LENGTH: usize = 8 * 1024;

/// How many attributes of one resource are listed.
const MAX_ATTRIBUTES: usize = 300;

/// Collects the differences.
pub(super) struct Difference<'a, 'r> {
    pub(super) cleaned: &'a mut PlanCopy<'r, Vec<u8>>,
    /// The attributes that force a replacement of the resource.
    pub(super) replaced: Vec<Vec<PathStep>>,
    /// The rest of the size limit, in bytes.
    pub(super) room: &'a mut usize,
    pub(super) found: Vec<AttributeChange>,
    /// The number of omitted attributes.
    pub(super) more: usize,
}

impl Difference<'_, '_> {
    /// Records the differences between `before` and `after` at `path`.
    pub(super) fn compare(
        &mut self,
        path: &Path,
        before: MarkedValue<'_>,
        after: MarkedValue<'_>,
        depth: usize,
    ) -> Result<()> {
        if before.same(after) {
            return Ok(());
        }
        let hidden = before.is_hidden(depth) || after.is_hidden(depth);
        if hidden || after.is_unknown() || depth >= MAX_DEPTH {
            return self.note(path, before, after, hidden);
        }
        match (before.kind(), after.kind()) {
            (ValueKind::Object, ValueKind::Object | ValueKind::Nothing)
            | (ValueKind::Nothing, ValueKind::Object) => self.objects(path, before, after, depth),
            (ValueKind::List, ValueKind::List | ValueKind::Nothing)
            | (ValueKind::Nothing, ValueKind::List) => self.lists(path, before, after, depth),
            (ValueKind::Text, ValueKind::Text | ValueKind::Nothing)
            | (ValueKind::Nothing, ValueKind::Text) => self.texts(path, before, after, depth),
            _ => self.note(path, before, after, false),
        }
    }

    fn objects(
        &mut self,
        path: &Path,
        before: MarkedValue<'_>,
        after: MarkedValue<'_>,
        depth: usize,
    ) -> Result<()> {
        let (old, new) = (MarkedObject::of(before)?, MarkedObject::of(after)?);
        let mut names: Vec<&str> = Vec::new();
        let all = [&old.values, &new.values, &new.unknown];
        let all = all.into_iter().flat_map(|members| &members.0).map(|(name, _)| name.as_str());
        let mut seen = std::collections::BTreeSet::new();
        names.extend(all.filter(|name| seen.insert(*name)));
        if names.is_empty() {
            return self.note(path, before, after, false);
        }
        for name in names {
            let (old, new) = (old.part(name), new.part(name));
            // An unchanged value does not need a path, whose redaction takes time.
            if !old.same(new) {
                let path = path.member(name, self.cleaned)?;
                self.compare(&path, old, new, depth + 1)?;
            }
        }
        Ok(())
    }

    fn lists(
        &mut self,
        path: &Path,
        before: MarkedValue<'_>,
        after: MarkedValue<'_>,
        depth: usize,
    ) -> Result<()> {
        let (old, new) = (list(before)?, list(after)?);
        if old.len().max(new.len()) == 0 {
            return self.note(path, before, after, false);
        }
        let pairs = align((old.len(), new.len()), |from, to| old[from].same(new[to]));
        let (mut from, mut to) = (0, 0);
        for (one, other) in pairs.into_iter().chain([(old.len(), new.len())]) {
            // The elements between two unchanged ones are compared in pairs, as far as both lists have some.
            for index in 0..(one - from).max(other - to) {
                let old = old[from..one].get(index).copied();
                let new = new[to..other].get(index).copied();
                // A removed element has its position in the old list, any other element that in the new list.
                let position = if new.is_some() { to + index } else { from + index };
                let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
                self.compare(&path.element(position), old, new, depth + 1)?;
            }
            (from, to) = (one + 1, other + 1);
        }
        Ok(())
    }

    fn texts(
        &mut self,
        path: &Path,
        before: MarkedValue<'_>,
        after: MarkedValue<'_>,
        depth: usize,
    ) -> Result<()> {
        let (old, new) = (self.document(before)?, self.document(after)?);
        let whole = |side: MarkedValue<'_>, inside: &Option<Box<RawValue>>| {
            side.value.is_none() || inside.is_some()
        };
        if !whole(before, &old) || !whole(after, &new) {
            return self.note(path, before, after, false);
        }
        let (old, new) = (old.as_deref(), new.as_deref());
        let known = self.found.len() + self.more;
        let (old, new) = (MarkedValue::of(old, None, None), MarkedValue::of(new, None, None));
        self.compare(&path.inside(), old, new, depth + 1)?;
        if self.found.len() + self.more == known {
            // Only the formatting differs.
            return self.note(path, before, after, false);
        }
        Ok(())
    }

    /// The JSON in a text, if it is an object or a list and the text does not contain a secret.
    fn document(&mut self, side: MarkedValue<'_>) -> Result<Option<Box<RawValue>>> {
        let Some(json) = side.value else { return Ok(None) };
        let inside: String = serde_json::from_str(json.get())?;
        if !inside.starts_with(['{', '[']) || !inside.ends_with(['}', ']']) {
            return Ok(None);
        }
        self.cleaned.open(json.get())?;
        let is_open = self.cleaned.take() == json.get();
        Ok(RawValue::from_string(inside).ok().filter(|_| is_open))
    }

    fn note(
        &mut self,
        path: &Path,
        before: MarkedValue<'_>,
        after: MarkedValue<'_>,
        hidden: bool,
    ) -> Result<()> {
        if self.found.len() >= MAX_ATTRIBUTES || *self.room == 0 {
            self.more += 1;
            return Ok(());
        }
        // If one side has several lines, both sides are compared line by line.
        let are_lines = [before.value, after.value].into_iter().flatten().any(has_lines);
        let shown = [before, MarkedValue { unknown: None, ..after }].map(|side| match side.value {
            Some(_) if hidden => Ok(Some(Shown::Sensitive)),
            Some(json) => self.shown(json, side.sensitive, are_lines).map(Some),
            None => Ok(None),
        });
        let [before, shown_after] = shown;
        let after = if after.is_unknown() { Some(Shown::Unknown) } else { shown_after? };
        let before = before?;
        let forces = |steps: &Vec<PathStep>| {
            let common = steps.len().min(path.steps.len());
            steps[..common] == path.steps[..common]
        };
        let change = AttributeChange {
            path: path.shown.clone(),
            forces_replacement: self.replaced.iter().any(forces),
            before,
            after,
        };
        let size = |shown: &Option<Shown>| match shown {
            Some(Shown::Value(text) | Shown::Text(text)) => text.len(),
            _ => 0,
        };
        // The cost of an attribute besides its texts: the struct, and the markup around it.
        let cost = 128 + change.path.len() + size(&change.before) + size(&change.after);
        *self.room = self.room.saturating_sub(cost);
        self.found.push(change);
        Ok(())
    }

    fn shown(
        &mut self,
        json: &RawValue,
        marks: Option<&RawValue>,
        are_lines: bool,
    ) -> Result<Shown> {
        match marks {
            Some(marks) => visit_marked(json, marks, None, 0, self.cleaned)?,
            None => self.cleaned.open(json.get())?,
        }
        let text = self.cleaned.take();
        if text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) == Some(MASK) {
            return Ok(Shown::Sensitive);
        }
        if are_lines && text.starts_with('"') {
            return Ok(Shown::Text(cut(serde_json::from_str(&text)?)));
        }
        Ok(Shown::Value(cut(without_html_escapes(&text))))
    }
}

/// Whether `json` is a text of several lines.
fn has_lines(json: &RawValue) -> bool {
    let text = json.get();
    text.starts_with('"')
        && serde_json::from_str::<String>(text)
            .is_ok_and(|text| text.trim_end_matches('\n').contains('\n'))
}

/// An object, its marks, and its unknown members.
struct MarkedObject<'a> {
    values: Members<'a>,
    sensitive: Members<'a>,
    unknown: Members<'a>,
}

impl<'a> MarkedObject<'a> {
    fn of(side: MarkedValue<'a>) -> Result<Self> {
        let object = |json: Option<&'a RawValue>| {
            let json = json.filter(|json| json.get().starts_with('{'));
            json.map_or_else(|| Ok(Members::default()), members)
        };
        Ok(Self {
            values: object(side.value)?,
            sensitive: object(side.sensitive)?,
            unknown: object(side.unknown)?,
        })
    }

    fn part(&self, name: &str) -> MarkedValue<'a> {
        MarkedValue::of(self.values.find(name), self.sensitive.find(name), self.unknown.find(name))
    }
}

/// The elements of a list, with their marks.
fn list(side: MarkedValue<'_>) -> Result<Vec<MarkedValue<'_>>> {
    let (sensitive, unknown) = (parts(side.sensitive)?, parts(side.unknown)?);
    let mut sensitive = sensitive.into_iter();
    let mut unknown = unknown.into_iter();
    let values = parts(side.value)?.into_iter();
    Ok(values.map(|value| MarkedValue::of(Some(value), sensitive.next(), unknown.next())).collect())
}

/// The elements, if it is a list.
fn parts(json: Option<&RawValue>) -> Result<Vec<&RawValue>> {
    match json.filter(|json| json.get().starts_with('[')) {
        Some(json) => elements(json),
        None => Ok(Vec::new()),
    }
}

/// JSON text with unescaped `<`, `>` and `&`: Go escapes them for HTML.
fn without_html_escapes(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(start) = rest.find('\\') {
        text.push_str(&rest[..start]);
        rest = &rest[start..];
        let sign = [("\\u003c", '<'), ("\\u003e", '>'), ("\\u0026", '&')];
        let sign = sign.into_iter().find(|(escape, _)| rest.starts_with(escape));
        let length = if let Some((escape, sign)) = sign {
            text.push(sign);
            escape.len()
        } else {
            // Together with the escaped character, which may be a backslash.
            let length = rest.chars().take(2).map(char::len_utf8).sum();
            text.push_str(&rest[..length]);
            length
        };
        rest = &rest[length..];
    }
    text + rest
}

/// The part of a text that is shown.
fn cut(mut text: String) -> String {
    if text.len() > MAX_VALUE_LENGTH {
        let end = text.floor_char_boundary(MAX_VALUE_LENGTH);
        let more = text.len() - end;
        text.truncate(end);
        let _ = write!(text, "… ({more} more bytes)");
    }
    // Without the capacity of the truncated part.
    text.shrink_to_fit();
    text
}
