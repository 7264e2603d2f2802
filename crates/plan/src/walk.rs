//! Reads the JSON of a plan (`show -json`, plan format 1.x) from beginning to end, and passes its
//! pieces to visitors.
//!
//! The document is read as a stream: one resource, one output or one module call is in memory at a
//! time. Several visitors can inspect the same piece, so that a plan is read again only if a
//! visitor depends on another one's result.

use std::collections::BTreeSet;
use std::io::{Read, Result};
use std::ops::Range;

use serde_json::value::RawValue;

use super::marks::{MAX_DEPTH, PieceVisitor, is_sensitive};
use super::splitter::Splitter;

/// A member of a plan's top-level object: its name, and its position in the output, including the
/// name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Member {
    /// Such as `resource_changes`.
    pub name: String,
    /// From the quote before the name to the last byte of the value.
    pub range: Range<u64>,
}

/// The position of the reader in a plan, which determines how the parts below are read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum NodeKind {
    Plan,
    Variables,
    State,
    Values,
    Module,
    Modules,
    Configuration,
    RootModule,
    Declarations,
    /// An object or array whose parts are pieces.
    Parts,
    /// An array whose elements are pieces; an object is a piece itself.
    Other,
    /// A value that is read as a whole.
    Piece,
    /// The value of a variable that is sensitive.
    SensitiveVariable,
}

impl NodeKind {
    /// The kind of the member `name` of an object.
    fn member(self, name: &str) -> Self {
        match (self, name) {
            (Self::Plan, "variables") => Self::Variables,
            (Self::Plan, "planned_values") | (Self::State, "values") => Self::Values,
            (Self::Plan, "prior_state") => Self::State,
            (Self::Plan, "configuration") => Self::Configuration,
            (Self::Plan, "output_changes")
            | (Self::Values | Self::RootModule, "outputs")
            | (Self::RootModule, "module_calls")
            | (Self::Configuration, "provider_config") => Self::Parts,
            (Self::Values, "root_module") => Self::Module,
            (Self::Module, "child_modules") => Self::Modules,
            (Self::Configuration, "root_module") => Self::RootModule,
            (Self::RootModule, "variables") => Self::Declarations,
            (Self::Variables | Self::Declarations | Self::Parts, _) => Self::Piece,
            _ => Self::Other,
        }
    }

    /// The kind of the elements of an array.
    const fn element(self) -> Self {
        match self {
            Self::Modules => Self::Module,
            _ => Self::Piece,
        }
    }

    /// Whether the value that begins with `byte` is read part by part.
    const fn is_opened_by(self, byte: u8) -> bool {
        match self {
            Self::Piece | Self::SensitiveVariable => false,
            Self::Other | Self::Modules => byte == b'[',
            Self::Parts => matches!(byte, b'[' | b'{'),
            _ => byte == b'{',
        }
    }
}

/// Receives the position in the plan.
pub(super) trait PlanVisitor: PieceVisitor {
    /// The length of the output.
    fn written(&self) -> u64 {
        0
    }

    /// A member of the plan begins.
    fn begin(&mut self, _member: &str) {}
}

/// Reads a plan piece by piece.
pub(super) struct Walk<'a, R, T> {
    input: Splitter<R>,
    target: &'a mut T,
    /// Names of sensitive variables; those that the configuration declares are added.
    variables: &'a mut BTreeSet<String>,
    /// The name of the current member.
    name: String,
    members: Vec<Member>,
}

impl<'a, R: Read, T: PlanVisitor> Walk<'a, R, T> {
    pub(super) fn new(input: R, target: &'a mut T, variables: &'a mut BTreeSet<String>) -> Self {
        Self {
            input: Splitter::new(input),
            target,
            variables,
            name: String::new(),
            members: Vec::new(),
        }
    }

    pub(super) fn document(mut self) -> Result<Vec<Member>> {
        self.walk(NodeKind::Plan, 0)?;
        self.input.end()?;
        Ok(self.members)
    }

    fn walk(&mut self, kind: NodeKind, depth: usize) -> Result<()> {
        let opening = self.input.peek()?;
        if depth == MAX_DEPTH || !kind.is_opened_by(opening) {
            let piece = self.input.value()?;
            return match kind {
                NodeKind::SensitiveVariable => self.target.variable(piece),
                _ => self.target.piece(&self.name, piece),
            };
        }
        self.input.take(opening)?;
        let (begin, closing, end) = match opening {
            b'{' => ("{", b'}', "}"),
            _ => ("[", b']', "]"),
        };
        self.target.layout(begin)?;
        let mut first = true;
        while self.input.advance(first, closing)? {
            if !first {
                self.target.layout(",")?;
            }
            first = false;
            if opening == b'[' {
                self.walk(kind.element(), depth + 1)?;
            } else {
                self.member(kind, depth)?;
            }
        }
        self.target.layout(end)
    }

    fn member(&mut self, kind: NodeKind, depth: usize) -> Result<()> {
        let start = self.target.written();
        let literal = self.input.name()?;
        let name: String = serde_json::from_str(literal.get())?;
        if kind == NodeKind::Plan {
            self.target.begin(&name);
        }
        self.target.layout(literal.get())?;
        self.target.layout(":")?;
        // The names of blocks in the module do not describe their content.
        let is_own =
            !matches!(kind, NodeKind::Variables | NodeKind::Declarations | NodeKind::Parts);
        self.name = if is_own { name.clone() } else { String::new() };
        match kind {
            NodeKind::Variables if self.variables.contains(&name) => {
                self.walk(NodeKind::SensitiveVariable, depth + 1)?;
            }
            NodeKind::Declarations => {
                let declaration = self.input.value()?;
                self.target.piece("", declaration)?;
                if is_sensitive(declaration) {
                    self.variables.insert(name);
                }
                return Ok(());
            }
            _ => self.walk(kind.member(&name), depth + 1)?,
        }
        if kind == NodeKind::Plan {
            self.members.push(Member { name, range: start..self.target.written() });
        }
        Ok(())
    }
}

/// Two visitors of the same plan, in this order. The second one writes the output.
pub(super) struct VisitorPair<'a, A, B>(pub(super) &'a mut A, pub(super) &'a mut B);

impl<A: PieceVisitor, B: PieceVisitor> PieceVisitor for VisitorPair<'_, A, B> {
    fn layout(&mut self, text: &str) -> Result<()> {
        self.0.layout(text)?;
        self.1.layout(text)
    }

    fn piece(&mut self, name: &str, json: &RawValue) -> Result<()> {
        self.0.piece(name, json)?;
        self.1.piece(name, json)
    }

    fn variable(&mut self, json: &RawValue) -> Result<()> {
        self.0.variable(json)?;
        self.1.variable(json)
    }
}

impl<A: PlanVisitor, B: PlanVisitor> PlanVisitor for VisitorPair<'_, A, B> {
    fn written(&self) -> u64 {
        self.1.written()
    }

    fn begin(&mut self, member: &str) {
        self.0.begin(member);
        self.1.begin(member);
    }
}
