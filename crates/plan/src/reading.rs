//! Reads a plan's JSON (`show -json`): the summary, the values that are secrets, and a redacted
//! copy.
//!
//! A plan can declare a value a secret after the value itself, so that a copy is correct only if
//! the whole plan is known. But most plans do not contain new secrets. So the copy is written
//! during the first pass; if that finds a new secret, the copy is discarded and written again in a
//! second pass.

use std::collections::BTreeSet;
use std::io::{Read, Result, Write};

use serde_json::value::RawValue;

use super::changes::ChangeCollector;
use super::clean::{Content, PlanCopy};
use super::marks::PieceVisitor;
use super::plan::SummaryBuilder;
use super::survey::{MarkedValues, Survey};
use super::walk::{Member, PlanVisitor, VisitorPair, Walk};
use butler_base::secret::Redactor;
use butler_result::Changes;

/// A copy of a plan.
#[derive(Debug)]
pub struct CopiedPlan<W> {
    /// The destination.
    pub into: W,
    /// The positions of the plan's members in the copy.
    pub members: Vec<Member>,
    /// The changes of the plan for display, or why they cannot be listed.
    pub changes: Result<Changes>,
}

/// Reads the plan that `open` opens. The root module's `variables` of these names are sensitive, as
/// are those that the plan's configuration declares sensitive. The plan's secrets are registered
/// with `redactor`. A copy is written into the destination that `create` creates. Both functions
/// are called more than once if the plan contains new secrets.
///
/// # Errors
/// If the plan cannot be read, or is not a plan. A copy that cannot be written is not an error.
pub fn read<R: Read, W: Write>(
    mut open: impl FnMut() -> Result<R>,
    mut create: impl FnMut() -> Result<W>,
    mut variables: BTreeSet<String>,
    content: Content,
    redactor: &Redactor,
) -> Result<(Survey, Result<CopiedPlan<W>>)> {
    let mut create = || Ok(ListingCopy::new(PlanCopy::new(content, redactor, create()?), redactor));
    let known = variables.len();
    let mut attempt = FirstPass {
        summarized: SummaryBuilder::default(),
        marked: MarkedValues::new(redactor),
        copying: create(),
    };
    let members = Walk::new(open()?, &mut attempt, &mut variables).document()?;
    let FirstPass { summarized, marked, copying } = attempt;
    let summary = summarized.into_summary()?;
    let is_right = marked.is_empty() && variables.len() == known;
    let (secrets, incomplete) = marked.into_secrets(|unmarked| {
        Walk::new(open()?, unmarked, &mut variables).document().map(drop)
    })?;
    redactor.register(&secrets);
    // The discarded copy is closed before it is created again, because it may buffer data.
    let copied = match copying.map(|copying| is_right.then_some(copying)) {
        Ok(Some(copying)) => Ok(copying.end(members)),
        Ok(None) => create().and_then(|copying| copy(open()?, copying, &mut variables)),
        Err(error) => Err(error),
    };
    Ok((Survey { summary, variables, secrets, incomplete }, copied))
}

/// Copies a plan whose secrets are all known.
fn copy<W: Write>(
    plan: impl Read,
    mut copying: ListingCopy<'_, W>,
    variables: &mut BTreeSet<String>,
) -> Result<CopiedPlan<W>> {
    let members = Walk::new(plan, &mut copying, variables).document()?;
    Ok(copying.end(members))
}

/// Writes a copy, and collects the changes.
struct ListingCopy<'a, W> {
    changes: ChangeCollector<'a>,
    target: PlanCopy<'a, W>,
}

impl<'a, W: Write> ListingCopy<'a, W> {
    /// The plan's own secrets must be registered with `redactor` before.
    fn new(target: PlanCopy<'a, W>, redactor: &'a Redactor) -> Self {
        Self { changes: ChangeCollector::new(redactor), target }
    }

    fn both(&mut self) -> VisitorPair<'_, ChangeCollector<'a>, PlanCopy<'a, W>> {
        VisitorPair(&mut self.changes, &mut self.target)
    }

    fn end(self, members: Vec<Member>) -> CopiedPlan<W> {
        CopiedPlan { into: self.target.into_written(), members, changes: self.changes.into_found() }
    }
}

impl<W: Write> PieceVisitor for ListingCopy<'_, W> {
    fn layout(&mut self, text: &str) -> Result<()> {
        self.both().layout(text)
    }

    fn piece(&mut self, name: &str, json: &RawValue) -> Result<()> {
        self.both().piece(name, json)
    }

    fn variable(&mut self, json: &RawValue) -> Result<()> {
        self.both().variable(json)
    }
}

impl<W: Write> PlanVisitor for ListingCopy<'_, W> {
    fn written(&self) -> u64 {
        self.target.written()
    }

    fn begin(&mut self, member: &str) {
        self.both().begin(member);
    }
}

/// The first pass over a plan, with a copy that continues until a new secret is found.
struct FirstPass<'a, W> {
    summarized: SummaryBuilder,
    marked: MarkedValues<'a>,
    copying: Result<ListingCopy<'a, W>>,
}

impl<'a, W: Write> FirstPass<'a, W> {
    fn look(&mut self) -> VisitorPair<'_, SummaryBuilder, MarkedValues<'a>> {
        VisitorPair(&mut self.summarized, &mut self.marked)
    }

    /// A write error does not stop the pass.
    fn copy(&mut self, write: impl FnOnce(&mut ListingCopy<'a, W>) -> Result<()>) {
        if let Ok(copying) = &mut self.copying
            && self.marked.is_empty()
            && let Err(error) = write(copying)
        {
            self.copying = Err(error);
        }
    }
}

impl<W: Write> PieceVisitor for FirstPass<'_, W> {
    fn layout(&mut self, text: &str) -> Result<()> {
        self.look().layout(text)?;
        self.copy(|copying| copying.layout(text));
        Ok(())
    }

    fn piece(&mut self, name: &str, json: &RawValue) -> Result<()> {
        self.look().piece(name, json)?;
        self.copy(|copying| copying.piece(name, json));
        Ok(())
    }

    fn variable(&mut self, json: &RawValue) -> Result<()> {
        self.look().variable(json)?;
        self.copy(|copying| copying.variable(json));
        Ok(())
    }
}

impl<W: Write> PlanVisitor for FirstPass<'_, W> {
    fn written(&self) -> u64 {
        self.copying.as_ref().map_or(0, ListingCopy::written)
    }

    fn begin(&mut self, member: &str) {
        self.look().begin(member);
        self.copy(|copying| {
            copying.begin(member);
            Ok(())
        });
    }
}

/// Parts of [`read`] that tests call separately.
#[cfg(test)]
pub(super) mod for_tests {
    use super::*;

    /// The survey of a plan whose secrets are all new.
    pub(in super::super) fn survey<R: Read>(
        open: impl FnMut() -> Result<R>,
        variables: BTreeSet<String>,
    ) -> Result<Survey> {
        let create = || Ok(std::io::sink());
        read(open, create, variables, Content::Everything, &Redactor::new())
            .map(|(survey, _)| survey)
    }

    /// Redacts a plan whose secrets are all known.
    pub(in super::super) fn clean<W: Write>(
        plan: impl Read,
        variables: &BTreeSet<String>,
        redactor: &Redactor,
        into: W,
    ) -> Result<CopiedPlan<W>> {
        let target = PlanCopy::new(Content::Clean, redactor, into);
        copy(plan, ListingCopy::new(target, redactor), &mut variables.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a plan with these parts; returns how often it was opened and created, and the copy.
    fn copied(parts: &str, variables: &[&str], redactor: &Redactor) -> ([u32; 2], String) {
        let plan = format!(r#"{{"format_version":"1.2",{parts}}}"#);
        copied_as(Content::Clean, &plan, variables, redactor)
    }

    fn copied_as(
        content: Content,
        plan: &str,
        variables: &[&str],
        redactor: &Redactor,
    ) -> ([u32; 2], String) {
        let written = std::cell::RefCell::new(Vec::new());
        let (mut opened, mut created) = (0, 0);
        let open = || {
            opened += 1;
            Ok(plan.as_bytes())
        };
        let create = || {
            created += 1;
            written.borrow_mut().clear();
            Ok(Shared(&written))
        };
        let variables = variables.iter().map(|name| (*name).to_owned()).collect();
        let (_, copied) = read(open, create, variables, content, redactor).unwrap();
        let CopiedPlan { into, members, .. } = copied.unwrap();
        let text = String::from_utf8(written.borrow().clone()).unwrap();
        drop(into);
        assert!(text.ends_with('}'), "nothing is written behind it: {text}");
        for Member { name, range } in members {
            let start = usize::try_from(range.start).unwrap();
            assert!(text[start..].starts_with(&format!("\"{name}\":")), "{text}");
        }
        ([opened, created], text)
    }

    struct Shared<'a>(&'a std::cell::RefCell<Vec<u8>>);

    impl Write for Shared<'_> {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// What holds something back writes that when it is dropped.
    impl Drop for Shared<'_> {
        fn drop(&mut self) {
            self.0.borrow_mut().extend_from_slice(b" ");
        }
    }

    const OPEN: &str = r#""resource_changes":[{"address":"a.b","change":{"actions":["create"],"after":{"v":"hunter22-one"},"after_sensitive":{}}}]"#;

    #[test]
    fn plan_without_new_secrets_is_read_and_written_once() {
        let redactor = Redactor::new();
        assert_eq!(copied(OPEN, &[], &redactor).0, [1, 1]);
        redactor.register(&["hunter22-one".into()]);
        let marked = OPEN.replace("\"after_sensitive\":{}", "\"after_sensitive\":{\"v\":true}");
        let (times, text) = copied(&marked, &[], &redactor);
        assert_eq!(times, [1, 1]);
        assert!(!text.contains("hunter22"), "{text}");
        let parts = format!(r#""variables":{{"x":{{"value":"hunter22-one"}}}},{OPEN}"#);
        assert_eq!(copied(&parts, &["x"], &redactor).0, [1, 1]);
    }

    #[test]
    fn secret_before_its_mark_is_masked_too() {
        let marked = OPEN.replace("\"after_sensitive\":{}", "\"after_sensitive\":{\"v\":true}");
        let before = r#""errored":"hunter22-one","#;
        let (times, text) = copied(&format!("{before}{marked}"), &[], &Redactor::new());
        assert_eq!(times, [3, 2]);
        assert!(!text.contains("hunter22"), "{text}");
        let declared = r#""variables":{"x":{"value":"short"}},"configuration":{"root_module":{"variables":{"x":{"sensitive":true}}}}"#;
        let (times, text) = copied(declared, &[], &Redactor::new());
        assert_eq!(
            times,
            [2, 2],
            "no secret that is to be looked for, but one that is to be hidden"
        );
        assert!(!text.contains("short"), "{text}");
    }

    #[test]
    fn copy_of_everything_is_identical_to_the_plan() {
        let plan = r#"{"format_version":"1.2","variables":{"x":{"value":"o\u003cpen-secret-1"}},"list":[1.50,[],{}],"output_changes":{"o":{"after":"hunter22-one","after_sensitive":true}}}"#;
        let (_, text) = copied_as(Content::Everything, plan, &["x"], &Redactor::new());
        assert_eq!(text, plan);
    }

    #[test]
    fn plan_is_read_even_if_its_copy_cannot_be_written() {
        let full = || Ok(&mut [][..]);
        let plan = format!(r#"{{"format_version":"1.2",{OPEN}}}"#);
        let open = || Ok(plan.as_bytes());
        let redactor = Redactor::new();
        let (survey, copied) =
            read(open, full, BTreeSet::new(), Content::Clean, &redactor).unwrap();
        assert_eq!(survey.summary.counts.add, 1);
        assert_eq!(copied.unwrap_err().kind(), std::io::ErrorKind::WriteZero);
        let none = || -> Result<Vec<u8>> { Err(std::io::Error::other("no room")) };
        let (_, copied) = read(open, none, BTreeSet::new(), Content::Clean, &redactor).unwrap();
        assert_eq!(copied.unwrap_err().to_string(), "no room");
    }
}
