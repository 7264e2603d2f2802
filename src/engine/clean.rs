//! Cleans the JSON of a plan (`show -json`): what Terraform marks as sensitive in it is masked, and
//! so is every secret that the redactor knows, wherever it stands.
//!
//! The document is read as a stream: in memory is one resource, one output or one module call at a
//! time, in buffers that are zeroed. What is hidden becomes [`MASK`], the sign that stands for
//! secrets in logs and texts too; the marks beside it stay, and tell what was marked from what was
//! only recognized. `null` stays `null`: it is no value, and tells a creation from a change.
//! Order, numbers, and all that holds no secret stay as they are.

use std::collections::BTreeSet;
use std::io::{Read, Result, Write};
use std::ops::Range;

use serde_json::value::RawValue;

use super::marks::{DEEPEST, Target, is_sensitive};
use super::splitter::Splitter;
use crate::secret::{MASK, Names, Redactor, redact_labels, redact_values};

/// A member of a plan's top-level object: its name, and where it stands in what was written, name
/// included.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Member {
    /// `resource_changes` for example.
    pub name: String,
    /// From the quote before the name to the last byte of the value.
    pub place: Range<u64>,
}

/// Writes a plan without its secrets: what is marked in it, the values of the root module's
/// `variables` of these names, and what `redactor` knows. Returns what stands where.
///
/// # Errors
/// When it cannot be read or written, or is no JSON.
pub fn clean(
    plan: impl Read,
    variables: &BTreeSet<String>,
    redactor: &Redactor,
    into: impl Write,
) -> Result<Vec<Member>> {
    Walk::new(plan, &mut Cleaned::new(redactor, into), &mut variables.clone()).document()
}

/// Writes a plan as it is. Returns what stands where.
///
/// # Errors
/// When it cannot be read or written, or is no JSON.
pub fn copy(plan: impl Read, into: impl Write) -> Result<Vec<Member>> {
    Walk::new(plan, &mut Verbatim(Counted::new(into)), &mut BTreeSet::new()).document()
}

/// Where in a plan the reader is, and what that means for what is below.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
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
    /// What is held and looked at as a whole.
    Piece,
    /// The value of a variable that is sensitive.
    SensitiveVariable,
}

impl Place {
    /// What the member `name` of an object is.
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

    /// What the elements of an array are.
    const fn element(self) -> Self {
        match self {
            Self::Modules => Self::Module,
            _ => Self::Piece,
        }
    }

    /// Whether what begins with `byte` is gone through part by part.
    const fn is_opened_by(self, byte: u8) -> bool {
        match self {
            Self::Piece | Self::SensitiveVariable => false,
            Self::Other | Self::Modules => byte == b'[',
            Self::Parts => matches!(byte, b'[' | b'{'),
            _ => byte == b'{',
        }
    }
}

/// What is told of where in the plan the reader is.
pub(super) trait Destination {
    /// Where what was written ends.
    fn written(&self) -> u64 {
        0
    }

    /// A member of the plan begins.
    fn begin(&mut self, _member: &str) {}
}

/// Goes through a plan piece by piece.
pub(super) struct Walk<'a, R, T> {
    input: Splitter<R>,
    target: &'a mut T,
    /// Names of variables that are sensitive; those that the configuration declares are added.
    variables: &'a mut BTreeSet<String>,
    /// The name of the member that is read.
    name: String,
    members: Vec<Member>,
}

impl<'a, R: Read, T: Target + Destination> Walk<'a, R, T> {
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
        self.walk(Place::Plan, 0)?;
        self.input.end()?;
        Ok(self.members)
    }

    fn walk(&mut self, place: Place, depth: usize) -> Result<()> {
        let opening = self.input.peek()?;
        if depth == DEEPEST || !place.is_opened_by(opening) {
            let piece = self.input.value()?;
            return match place {
                Place::SensitiveVariable => self.target.variable(piece),
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
                self.walk(place.element(), depth + 1)?;
            } else {
                self.member(place, depth)?;
            }
        }
        self.target.layout(end)
    }

    fn member(&mut self, place: Place, depth: usize) -> Result<()> {
        let start = self.target.written();
        let literal = self.input.name()?;
        let name: String = serde_json::from_str(literal.get())?;
        if place == Place::Plan {
            self.target.begin(&name);
        }
        self.target.layout(literal.get())?;
        self.target.layout(":")?;
        // The names of blocks in the module say nothing about what is in them.
        let is_own = !matches!(place, Place::Variables | Place::Declarations | Place::Parts);
        self.name = if is_own { name.clone() } else { String::new() };
        match place {
            Place::Variables if self.variables.contains(&name) => {
                self.walk(Place::SensitiveVariable, depth + 1)?;
            }
            Place::Declarations => {
                let declaration = self.input.value()?;
                self.target.piece("", declaration)?;
                if is_sensitive(declaration) {
                    self.variables.insert(name);
                }
                return Ok(());
            }
            _ => self.walk(place.member(&name), depth + 1)?,
        }
        if place == Place::Plan {
            self.members.push(Member { name, place: start..self.target.written() });
        }
        Ok(())
    }
}

/// Where the cleaned plan is written.
pub(super) struct Cleaned<'a, W> {
    redactor: &'a Redactor,
    names: Names,
    into: Counted<W>,
}

impl<'a, W: Write> Cleaned<'a, W> {
    pub(super) fn new(redactor: &'a Redactor, into: W) -> Self {
        Self { redactor, names: Names::default(), into: Counted::new(into) }
    }
}

impl Cleaned<'_, Vec<u8>> {
    /// Takes out what was written.
    pub(super) fn take(&mut self) -> String {
        let written = std::mem::take(&mut self.into.into);
        String::from_utf8(written).expect("only texts are written")
    }
}

impl<W: Write> Target for Cleaned<'_, W> {
    fn layout(&mut self, text: &str) -> Result<()> {
        self.into.write(text)
    }

    fn open(&mut self, json: &str) -> Result<()> {
        self.into.write(&redact_values(self.redactor, &mut self.names, json))
    }

    fn name(&mut self, name: &str) -> Result<()> {
        self.into.write(&serde_json::to_string(&self.names.masked(self.redactor, name))?)
    }

    fn label(&mut self, json: &str) -> Result<()> {
        self.into.write(&redact_labels(self.redactor, &mut self.names, json))
    }

    fn hidden(&mut self, json: &str) -> Result<()> {
        if json == "null" {
            return self.into.write(json);
        }
        self.into.write(&format!("\"{MASK}\""))
    }
}

impl<W> Destination for Cleaned<'_, W> {
    fn written(&self) -> u64 {
        self.into.length
    }
}

/// Where the plan is written as it is.
struct Verbatim<W>(Counted<W>);

impl<W: Write> Target for Verbatim<W> {
    fn layout(&mut self, text: &str) -> Result<()> {
        self.0.write(text)
    }

    fn name(&mut self, name: &str) -> Result<()> {
        self.0.write(&serde_json::to_string(name)?)
    }

    fn label(&mut self, json: &str) -> Result<()> {
        self.0.write(json)
    }

    fn open(&mut self, json: &str) -> Result<()> {
        self.0.write(json)
    }

    fn hidden(&mut self, json: &str) -> Result<()> {
        self.0.write(json)
    }

    fn piece(&mut self, _: &str, json: &RawValue) -> Result<()> {
        self.0.write(json.get())
    }
}

impl<W> Destination for Verbatim<W> {
    fn written(&self) -> u64 {
        self.0.length
    }
}

/// Counts what it writes.
struct Counted<W> {
    into: W,
    length: u64,
}

impl<W> Counted<W> {
    const fn new(into: W) -> Self {
        Self { into, length: 0 }
    }
}

impl<W: Write> Counted<W> {
    fn write(&mut self, text: &str) -> Result<()> {
        self.into.write_all(text.as_bytes())?;
        self.length += text.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;
    use crate::engine::Survey;

    const PLAN: &str = r#"{"format_version":"1.2","variables":{"open":{"value":"o\u003cpen"},"pin":{"value":1.50},"key":{"value":["sssssss1"]}},
        "planned_values":{"outputs":{"o":{"sensitive":true,"type":"string","value":"sssssss2"}},
            "root_module":{"resources":[{"address":"a.a","values":{"v":"sssssss3-long","w":12345678901234567890.10},"sensitive_values":{"v":true}}],
                "child_modules":[{"resources":[],"child_modules":[{"resources":[{"values":{"v":["o","sssssss4"]},"sensitive_values":{"v":[false,true]}}]}]}]}},
        "resource_changes":[{"address":"a.a","change":{"before":null,"after":{"v":"sssssss3-long"},"before_sensitive":false,"after_sensitive":{"v":true}}},
            {"address":"a.b","change":{"after":{"v":"a sssssss3-long b, known-one, 4711"},"after_sensitive":{}}}],
        "output_changes":{"o":{"before":null,"after":"sssssss2","before_sensitive":true,"after_sensitive":true}},
        "prior_state":{"values":{"outputs":{"o":{"sensitive":true,"value":{"x":"sssssss5"}}},"root_module":{"resources":[{"values":{"v":"sssssss6"},"sensitive_values":{"v":true}}]}}},
        "configuration":{"root_module":{"outputs":{"c":{"sensitive":true,"expression":{"constant_value":"sssssss7"}}},
            "module_calls":{"m":{"expressions":{"p":{"constant_value":"sssssss8"}},"module":{"variables":{"p":{"sensitive":true}}}}},
            "variables":{"key":{"default":"sssssss9","sensitive":true},"pin":{}}}},
        "future":{"before":{"v":"sssssss0"},"before_sensitive":{"v":true}},"more":[{"after":"sssssss0","after_sensitive":true}],"applyable":true}
"#;

    fn cleaned() -> (String, Vec<Member>) {
        let redactor = Redactor::new();
        redactor.register(&["known-one", "4711"].map(SecretString::from));
        let survey =
            Survey::read(|| Ok(PLAN.as_bytes()), BTreeSet::from(["pin".to_owned()])).unwrap();
        assert_eq!(survey.variables, ["key", "pin"].map(str::to_owned).into());
        assert!(!survey.incomplete);
        redactor.register(&survey.secrets);
        let mut written = Vec::new();
        let members = clean(PLAN.as_bytes(), &survey.variables, &redactor, &mut written).unwrap();
        (String::from_utf8(written).unwrap(), members)
    }

    #[test]
    fn no_place_of_a_plan_shows_what_is_marked_anywhere_in_it() {
        let (text, members) = cleaned();
        assert!(!text.contains("sssssss"), "{text}");
        let (before, after): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(PLAN).unwrap(), serde_json::from_str(&text).unwrap());
        assert_eq!(after["variables"]["pin"]["value"], "***");
        assert_eq!(after["variables"]["open"], before["variables"]["open"]);
        assert_eq!(after["resource_changes"][0]["change"]["before"], serde_json::Value::Null);
        assert_eq!(after["resource_changes"][1]["change"]["after"]["v"], "a *** b, ***, ***");
        assert_eq!(after["output_changes"]["o"]["before"], serde_json::Value::Null);
        assert_eq!(after["future"]["before"]["v"], "***");
        assert!(text.contains(r#""w":12345678901234567890.10"#), "{text}");
        assert!(text.contains(r#"{"value":"o\u003cpen"}"#), "{text}");
        let names = |value: &serde_json::Value| {
            value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>()
        };
        assert_eq!(names(&before), names(&after));
        assert_eq!(members.len(), names(&before).len());
    }

    #[test]
    fn names_in_values_are_masked_and_words_of_the_plan_are_not() {
        let plan = r#"{"format_version":"1.2-name","variables":{"name":{"value":{"token-01":1,"token-02":"name"}}},
            "planned_values":{"outputs":{"type":{"sensitive":false,"type":["object",{"token-01":"string"}],"value":{"token-01":"x"}}},
                "root_module":{"resources":[{"address":"update.name[\"token-01\"]","mode":"managed","type":"update","name":"name",
                    "index":"token-01","values":{"input":{"token-02":"x"}},"sensitive_values":{"input":{"token-02":true}}}]}},
            "resource_changes":[{"address":"a.name","module_address":"module.name","provider_name":"host/name","change":{"actions":["update"],
                "before":{"name":"name"},"after":{"address":{"token-01":"o","token-02":"s"}},"after_unknown":{"address":{"token-02":true}},
                "before_sensitive":{},"after_sensitive":{"address":{"token-02":true}},"replace_paths":[["name","token-01",0]]}}],
            "relevant_attributes":[{"resource":"a.name","attribute":["name","token-01"]}],
            "configuration":{"root_module":{"resources":[{"address":"a.name","expressions":{"name":{"references":["var.name"]},
                "other":{"constant_value":{"token-01":"name"}}}}]}},
            "checks":[{"address":{"kind":"check","to_display":"check.name"},"status":"update","instances":[{"problems":[{"message":"name token-01"}]}]}]}"#;
        let redactor = Redactor::new();
        let words = ["name", "update", "managed", "string", "object", "type", "check", "values"];
        redactor.register(&words.map(SecretString::from));
        redactor.register(&["token-01", "token-02", "1.2-name"].map(SecretString::from));
        let mut written = Vec::new();
        clean(plan.as_bytes(), &BTreeSet::new(), &redactor, &mut written).unwrap();
        let expected = r#"{"format_version":"1.2-name","variables":{"name":{"value":{"***":1,"*** 2":"***"}}},
            "planned_values":{"outputs":{"type":{"sensitive":false,"type":["object",{"***":"string"}],"value":{"***":"x"}}},
                "root_module":{"resources":[{"address":"update.name[\"***\"]","mode":"managed","type":"update","name":"name",
                    "index":"***","values":{"input":{"*** 2":"***"}},"sensitive_values":{"input":{"*** 2":true}}}]}},
            "resource_changes":[{"address":"a.name","module_address":"module.name","provider_name":"host/name","change":{"actions":["update"],
                "before":{"*** 3":"***"},"after":{"address":{"***":"o","*** 2":"***"}},"after_unknown":{"address":{"*** 2":true}},
                "before_sensitive":{},"after_sensitive":{"address":{"*** 2":true}},"replace_paths":[["name","***",0]]}}],
            "relevant_attributes":[{"resource":"a.name","attribute":["name","***"]}],
            "configuration":{"root_module":{"resources":[{"address":"a.name","expressions":{"name":{"references":["var.name"]},
                "other":{"constant_value":{"***":"***"}}}}]}},
            "checks":[{"address":{"kind":"check","to_display":"check.name"},"status":"update","instances":[{"problems":[{"message":"*** ***"}]}]}]}"#;
        let [written, expected] = [written.as_slice(), expected.as_bytes()]
            .map(|json| serde_json::from_slice::<serde_json::Value>(json).unwrap());
        assert_eq!(written, expected);
    }

    #[test]
    fn members_say_where_they_stand() {
        let (text, members) = cleaned();
        for Member { name, place } in &members {
            let place = usize::try_from(place.start).unwrap()..usize::try_from(place.end).unwrap();
            let alone: serde_json::Value =
                serde_json::from_str(&format!("{{{}}}", &text[place])).unwrap();
            assert_eq!(alone.as_object().unwrap().keys().collect::<Vec<_>>(), [name]);
        }
    }

    #[test]
    fn a_copy_is_what_terraform_wrote() {
        let compact = PLAN.replace(['\n'], "").replace("        ", "").replace("    ", "");
        let mut written = Vec::new();
        copy(compact.as_bytes(), &mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), compact);
    }

    #[test]
    fn modules_nested_without_end_are_cleaned_and_need_no_stack() {
        let levels = 50_000;
        let modules = format!(
            r#"{}{{"resources":[{{"values":{{"v":"hunter22"}},"sensitive_values":{{"v":true}}}}]}}{}"#,
            r#"{"child_modules":["#.repeat(levels),
            "]}".repeat(levels)
        );
        let plan = format!(r#"{{"planned_values":{{"root_module":{modules}}}}}"#);
        let mut written = Vec::new();
        clean(plan.as_bytes(), &BTreeSet::new(), &Redactor::new(), &mut written).unwrap();
        let text = String::from_utf8(written).unwrap();
        assert!(!text.contains("hunter22") && text.contains("***"));
        serde_json::from_str::<&RawValue>(&text).unwrap();
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        for text in ["", "{", "{\"a\":}", "{\"a\":1}x", "{\"resource_changes\":[{]}", "{\"a\" 1}"] {
            let mut written = Vec::new();
            let cleaned = clean(text.as_bytes(), &BTreeSet::new(), &Redactor::new(), &mut written);
            assert!(cleaned.is_err(), "{text}");
        }
    }
}
