//! Finds out which texts an expression can be.
//!
//! It never guesses: what it does not know is [`Part::Unknown`]. An expression has several texts if it has a
//! condition, or goes through the elements of a list.

use std::cell::Cell;
use std::collections::HashMap;

use hcl_edit::expr::{Expression, ForExpr, FuncCall, ObjectKey, Traversal, TraversalOperator};
use hcl_edit::template::{Element, Template};

use super::path_text::{Part, PathText};
use super::reference::Start;
use super::terragrunt;

/// The most texts of one expression.
const MOST: usize = 64;

/// How deep values refer to each other.
const DEEPEST: usize = 32;

/// Resources and data sources that write files, and the attributes with the paths of these.
const WRITERS: [&str; 3] = ["archive_file", "local_file", "local_sensitive_file"];
const WRITTEN: [&str; 2] = ["filename", "output_path"];

/// The names that an expression can use, and what they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// Those of `for` expressions, the innermost last.
    names: Vec<(String, Vec<PathText>)>,
    /// `each.key` and `each.value`.
    each: Option<Elements>,
}

impl Scope {
    pub(super) const fn of_block(each: Option<Elements>) -> Self {
        Self { names: Vec::new(), each }
    }

    /// The scope in a `for` expression.
    pub(super) fn within(&self, values: &Values<'_>, found: &ForExpr) -> Self {
        let elements = values.elements(&found.intro.collection_expr, self);
        let mut inner = self.clone();
        if let Some(key) = &found.intro.key_var {
            inner.names.push((key.to_string(), elements.keys));
        }
        inner.names.push((found.intro.value_var.to_string(), elements.values));
        inner
    }
}

/// What a collection consists of.
#[derive(Clone, Debug)]
pub(super) struct Elements {
    keys: Vec<PathText>,
    values: Vec<PathText>,
}

impl Elements {
    /// All keys and values.
    pub(super) fn into_texts(self) -> impl Iterator<Item = PathText> {
        self.keys.into_iter().chain(self.values)
    }

    fn unknown() -> Self {
        Self { keys: vec![PathText::unknown()], values: vec![PathText::unknown()] }
    }
}

/// The values of a module that are written in its files.
#[derive(Default)]
pub(super) struct Values<'a> {
    /// `locals`; `None` for those with several values.
    pub(super) locals: HashMap<&'a str, Option<&'a Expression>>,
    /// Whether the files are those of Terragrunt.
    pub(super) is_terragrunt: bool,
    depth: Cell<usize>,
}

impl Values<'_> {
    pub(super) fn new(is_terragrunt: bool) -> Self {
        Self { is_terragrunt, ..Self::default() }
    }

    /// The texts that `expression` can be.
    pub(super) fn texts(&self, expression: &Expression, scope: &Scope) -> Vec<PathText> {
        self.bounded(|| vec![PathText::unknown()], || self.texts_of(expression, scope))
    }

    /// What `for_each = expression` goes through.
    pub(super) fn elements(&self, expression: &Expression, scope: &Scope) -> Elements {
        self.bounded(Elements::unknown, || self.elements_of(expression, scope))
    }

    fn bounded<T>(&self, unknown: impl FnOnce() -> T, work: impl FnOnce() -> T) -> T {
        if self.depth.get() >= DEEPEST {
            return unknown();
        }
        self.depth.set(self.depth.get() + 1);
        let found = work();
        self.depth.set(self.depth.get() - 1);
        found
    }

    fn texts_of(&self, expression: &Expression, scope: &Scope) -> Vec<PathText> {
        match expression {
            Expression::String(text) => vec![PathText::text(text.as_str())],
            Expression::StringTemplate(template) => self.template(template, scope),
            Expression::HeredocTemplate(heredoc) => self.template(&heredoc.template, scope),
            Expression::Parenthesis(inner) => self.texts(inner.inner(), scope),
            Expression::Null(_) => vec![PathText::text("")],
            Expression::Conditional(either) => {
                let mut texts = self.texts(&either.true_expr, scope);
                texts.extend(self.texts(&either.false_expr, scope));
                limited(texts)
            }
            Expression::Variable(name) => {
                let known = scope.names.iter().rev().find(|(known, _)| known == name.as_str());
                known.map_or_else(|| vec![PathText::unknown()], |(_, texts)| texts.clone())
            }
            Expression::Traversal(traversal) => self.traversal(traversal, scope),
            Expression::FuncCall(call) => self.call(call, scope),
            // The results of operators are numbers and truth values too.
            Expression::Number(_)
            | Expression::Bool(_)
            | Expression::UnaryOp(_)
            | Expression::BinaryOp(_) => vec![PathText::name()],
            Expression::Array(_) | Expression::Object(_) | Expression::ForExpr(_) => {
                vec![PathText::unknown()]
            }
        }
    }

    /// The texts that a template can be.
    pub(super) fn template(&self, template: &Template, scope: &Scope) -> Vec<PathText> {
        let mut texts = vec![PathText::default()];
        for element in template {
            let next = match element {
                Element::Literal(text) => vec![PathText::text(text.as_str())],
                Element::Interpolation(inner) => self.texts(&inner.expr, scope),
                Element::Directive(_) => vec![PathText::unknown()],
            };
            let mut longer = Vec::new();
            for text in &texts {
                for next in &next {
                    let mut text = text.clone();
                    text.push(next.clone());
                    longer.push(text);
                }
            }
            texts = limited(longer);
        }
        texts
    }

    fn traversal(&self, traversal: &Traversal, scope: &Scope) -> Vec<PathText> {
        let unknown = || vec![PathText::unknown()];
        let Expression::Variable(root) = &traversal.expr else { return unknown() };
        if scope.names.iter().any(|(name, _)| name == root.as_str()) {
            return unknown();
        }
        let names: Vec<Option<&str>> =
            traversal.operators.iter().map(|it| name_of(it.value())).collect();
        match (root.as_str(), names.as_slice()) {
            ("path", [Some("module")]) => vec![PathText::directory(Start::Module)],
            ("path", [Some("root" | "cwd")]) => vec![PathText::directory(Start::Root)],
            ("count", [Some("index")]) | ("terraform", [Some("workspace")]) => {
                vec![PathText::name()]
            }
            ("each", [Some("key")]) => {
                scope.each.as_ref().map_or_else(unknown, |it| it.keys.clone())
            }
            ("each", [Some("value")]) => {
                scope.each.as_ref().map_or_else(unknown, |it| it.values.clone())
            }
            ("local", [Some(name), rest @ ..]) => {
                let found = self.locals.get(name).copied().flatten();
                let found = found.and_then(|value| member(value, rest));
                // A value of a module does not see the scope of the one that uses it.
                found.map_or_else(unknown, |value| self.texts(value, &Scope::default()))
            }
            ("data", [Some(kind), .., Some(last)])
                if WRITERS.contains(kind) && WRITTEN.contains(last) =>
            {
                vec![PathText(vec![Part::Written])]
            }
            (kind, [.., Some(last)]) if WRITERS.contains(&kind) && WRITTEN.contains(last) => {
                vec![PathText(vec![Part::Written])]
            }
            _ => unknown(),
        }
    }

    fn call(&self, call: &FuncCall, scope: &Scope) -> Vec<PathText> {
        let name = call.name.name.as_str();
        let argument = |index| call.args.get(index).map(|it| self.texts(it, scope));
        if self.is_terragrunt
            && let Some(texts) = terragrunt::texts(name, call, call.args.get(0).is_some())
        {
            return texts;
        }
        let Some(first) = argument(0) else { return vec![PathText::unknown()] };
        match name {
            "abspath" | "pathexpand" | "tostring" | "sensitive" | "nonsensitive" => first,
            "basename" => first.iter().map(base_name).collect(),
            "lower" | "upper" | "title" | "trimspace" | "trimprefix" | "trimsuffix" | "dirname" => {
                let name = |text: &PathText| {
                    if text.is_name() { PathText::name() } else { PathText::unknown() }
                };
                first.iter().map(name).collect()
            }
            _ => vec![PathText::unknown()],
        }
    }

    fn elements_of(&self, expression: &Expression, scope: &Scope) -> Elements {
        match expression {
            Expression::Parenthesis(inner) => self.elements(inner.inner(), scope),
            Expression::Array(values) => {
                let texts = values.iter().flat_map(|value| self.texts(value, scope));
                let values = limited(texts.collect());
                // The key of a set is its value.
                let keys = values.iter().cloned().chain([PathText::name()]).collect();
                Elements { keys, values }
            }
            Expression::Object(members) => {
                let keys = members.iter().flat_map(|(key, _)| match key {
                    ObjectKey::Ident(name) => vec![PathText::text(name.as_str())],
                    ObjectKey::Expression(key) => self.texts(key, scope),
                });
                let values = members.iter().flat_map(|(_, value)| self.texts(value.expr(), scope));
                Elements { keys: limited(keys.collect()), values: limited(values.collect()) }
            }
            Expression::Conditional(either) => {
                let mut found = self.elements(&either.true_expr, scope);
                let other = self.elements(&either.false_expr, scope);
                found.keys.extend(other.keys);
                found.values.extend(other.values);
                Elements { keys: limited(found.keys), values: limited(found.values) }
            }
            Expression::Traversal(traversal) => {
                let Expression::Variable(root) = &traversal.expr else {
                    return Elements::unknown();
                };
                match (root.as_str(), traversal.operators.as_slice()) {
                    ("local", [name]) => {
                        let value = name_of(name.value()).and_then(|name| self.locals.get(name));
                        value.copied().flatten().map_or_else(Elements::unknown, |value| {
                            self.elements(value, &Scope::default())
                        })
                    }
                    _ => Elements::unknown(),
                }
            }
            Expression::ForExpr(found) => {
                let inner = scope.within(self, found);
                let values = self.texts(&found.value_expr, &inner);
                let keys = match &found.key_expr {
                    Some(key) => self.texts(key, &inner),
                    None => values.iter().cloned().chain([PathText::name()]).collect(),
                };
                Elements { keys, values }
            }
            Expression::FuncCall(call) => self.elements_of_call(call, scope),
            _ => Elements::unknown(),
        }
    }

    fn elements_of_call(&self, call: &FuncCall, scope: &Scope) -> Elements {
        match (call.name.name.as_str(), call.args.get(0)) {
            ("toset" | "tolist" | "sort" | "distinct" | "compact", Some(inner)) => {
                self.elements(inner, scope)
            }
            ("fileset", _) => {
                let pattern = call.args.get(1).map(|it| self.texts(it, scope)).unwrap_or_default();
                if pattern.is_empty() || !pattern.iter().all(PathText::is_name) {
                    return Elements::unknown();
                }
                Elements { keys: vec![PathText::name()], values: vec![PathText::name()] }
            }
            _ => Elements::unknown(),
        }
    }
}

/// The name that an operator looks up.
fn name_of(operator: &TraversalOperator) -> Option<&str> {
    match operator {
        TraversalOperator::GetAttr(name) => Some(name.as_str()),
        TraversalOperator::Index(index) => index.as_str(),
        _ => None,
    }
}

/// A member of a member of an object that is written out.
fn member<'a>(mut value: &'a Expression, names: &[Option<&str>]) -> Option<&'a Expression> {
    for name in names {
        let Expression::Object(members) = value else { return None };
        let name = (*name)?;
        let found = members.iter().find(|(key, _)| match key {
            ObjectKey::Ident(key) => key.as_str() == name,
            ObjectKey::Expression(key) => key.as_str() == Some(name),
        });
        value = found?.1.expr();
    }
    Some(value)
}

/// The last name of a path.
fn base_name(text: &PathText) -> PathText {
    let is_certain = match text.0.as_slice() {
        [Part::Directory(_) | Part::Name | Part::Written] => true,
        [.., Part::Text(last)] => {
            last.rsplit_once('/').is_some_and(|(_, name)| !name.is_empty() && !name.contains(".."))
        }
        _ => false,
    };
    if is_certain || text.is_name() { PathText::name() } else { PathText::unknown() }
}

fn limited(texts: Vec<PathText>) -> Vec<PathText> {
    if texts.len() > MOST { vec![PathText::unknown()] } else { texts }
}
