//! Goes through expressions, and names the paths in them.

use hcl_edit::expr::{Expression, ObjectKey, TraversalOperator};
use hcl_edit::repr::Span as _;
use hcl_edit::template::{Directive, Element, Template};

use super::path_text::PathText;
use super::reference::{Role, Start};
use super::survey::Survey;
use super::words::words;

impl Survey<'_> {
    /// Looks at a value that can be a path, or contain some.
    pub(super) fn value(&mut self, value: &Expression) {
        let is_text = matches!(
            value,
            Expression::String(_)
                | Expression::StringTemplate(_)
                | Expression::HeredocTemplate(_)
                | Expression::Traversal(_)
        );
        let gives_path = self.values.is_terragrunt && matches!(value, Expression::FuncCall(_));
        if is_text || gives_path {
            self.texts(value);
        }
        self.inner(value);
    }

    fn texts(&mut self, value: &Expression) {
        let at = value.span().map(|span| span.start);
        for text in self.values.texts(value, &self.scope) {
            if !text.looks_like_path() {
                continue;
            }
            let words = words(&text);
            // A name with a space.
            if words.len() > 1 {
                self.name_texts(std::slice::from_ref(&text), false, Role::Read);
            }
            for word in words.iter().filter(|word| word.looks_like_path()) {
                if word.resolve(&Start::Root, true).is_err() {
                    self.flag(at, "a path is computed".to_owned());
                }
            }
            self.name_texts(&words, true, Role::Read);
        }
    }

    /// Names those of `texts` that are understood.
    pub(super) fn name_texts(&mut self, texts: &[PathText], only_paths: bool, role: Role) {
        for text in texts.iter().filter(|text| !only_paths || text.looks_like_path()) {
            let Ok(Some((start, path))) = text.resolve(&Start::Root, only_paths) else { continue };
            // The directory itself is known, or only where other paths begin.
            if path.trim_matches('/').is_empty() {
                continue;
            }
            if !text.has_directory() {
                // The tool that gets the path decides where it begins.
                self.name(Start::Module, &path, role);
            }
            self.name(start, &path, role);
        }
    }

    /// Looks at what a value consists of.
    pub(super) fn inner(&mut self, value: &Expression) {
        match value {
            Expression::FuncCall(call) => self.call(call),
            Expression::StringTemplate(template) => self.template(template),
            Expression::HeredocTemplate(heredoc) => self.template(&heredoc.template),
            Expression::Array(values) => values.iter().for_each(|value| self.value(value)),
            Expression::Object(members) => {
                for (key, member) in members {
                    if let ObjectKey::Expression(key) = key {
                        self.value(key);
                    }
                    self.value(member.expr());
                }
            }
            Expression::Parenthesis(inner) => self.value(inner.inner()),
            Expression::Conditional(either) => {
                self.inner(&either.cond_expr);
                self.value(&either.true_expr);
                self.value(&either.false_expr);
            }
            Expression::UnaryOp(operation) => self.inner(&operation.expr),
            Expression::BinaryOp(operation) => {
                self.inner(&operation.lhs_expr);
                self.inner(&operation.rhs_expr);
            }
            Expression::Traversal(traversal) => {
                self.inner(&traversal.expr);
                for operator in &traversal.operators {
                    if let TraversalOperator::Index(index) = operator.value() {
                        self.inner(index);
                    }
                }
            }
            Expression::ForExpr(found) => {
                self.value(&found.intro.collection_expr);
                let inner = self.scope.within(self.values, found);
                let outer = std::mem::replace(&mut self.scope, inner);
                if let Some(key) = &found.key_expr {
                    self.value(key);
                }
                self.value(&found.value_expr);
                if let Some(condition) = &found.cond {
                    self.inner(&condition.expr);
                }
                self.scope = outer;
            }
            Expression::Null(_)
            | Expression::Bool(_)
            | Expression::Number(_)
            | Expression::String(_)
            | Expression::Variable(_) => {}
        }
    }

    pub(super) fn template(&mut self, template: &Template) {
        for element in template {
            match element {
                Element::Literal(_) => {}
                Element::Interpolation(inner) => self.inner(&inner.expr),
                Element::Directive(directive) => match &**directive {
                    Directive::If(found) => {
                        self.inner(&found.if_expr.cond_expr);
                        self.template(&found.if_expr.template);
                        if let Some(other) = &found.else_expr {
                            self.template(&other.template);
                        }
                    }
                    Directive::For(found) => {
                        self.inner(&found.for_expr.collection_expr);
                        self.template(&found.for_expr.template);
                    }
                },
            }
        }
    }
}
