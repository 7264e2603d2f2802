//! Redacts the JSON of a plan (`show -json`): values that Terraform marks as sensitive, and each
//! secret that is registered with the redactor.
//!
//! The document is read as a stream: one resource, one output or one module call is in memory at a
//! time. A hidden value becomes [`MASK`], as in logs. The marks remain, so that marked and
//! recognized values can be told apart. `null` remains `null`, because it distinguishes a creation
//! from a change. A hidden value that a change replaces by another one has [`CHANGED`] behind the mask: two
//! masks alone would be equal, and readers of the copy could not see the change. Order, numbers, and all
//! parts without secrets remain unchanged.

use std::io::{Result, Write};

use serde_json::value::RawValue;

use super::marks::{PieceVisitor, hides_nothing, visit_sensitive_variable, visit_terraform_value};
use super::walk::PlanVisitor;
use butler_base::secret::{MASK, Names, Redactor, holds_no_secret, redact_labels, redact_values};

/// The mark after the mask of a value that differs only in its hidden part.
pub(super) const CHANGED: &str = " (changed)";

/// The content of a copy of a plan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Content {
    /// Without secrets: values that are marked in the plan, values of sensitive variables of the
    /// root module, and registered secrets.
    Clean,
    /// Everything.
    Everything,
}

/// The destination of the copy.
pub(super) struct PlanCopy<'a, W> {
    content: Content,
    redactor: &'a Redactor,
    names: Names,
    into: Counted<W>,
}

impl<'a, W> PlanCopy<'a, W> {
    pub(super) fn new(content: Content, redactor: &'a Redactor, into: W) -> Self {
        Self { content, redactor, names: Names::default(), into: Counted { into, length: 0 } }
    }

    /// The destination. It is not flushed.
    pub(super) fn into_written(self) -> W {
        self.into.into
    }
}

impl PlanCopy<'_, Vec<u8>> {
    /// Removes and returns the written bytes.
    pub(super) fn take(&mut self) -> String {
        let written = std::mem::take(&mut self.into.into);
        String::from_utf8(written).expect("only texts are written")
    }
}

impl<W: Write> PieceVisitor for PlanCopy<'_, W> {
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

    fn hidden_changed(&mut self, json: &str) -> Result<()> {
        if json == "null" {
            return self.into.write(json);
        }
        self.into.write(&format!("\"{MASK}{CHANGED}\""))
    }

    fn open_changed(&mut self, json: &str, earlier: &str) -> Result<()> {
        let text = redact_values(self.redactor, &mut self.names, json);
        // Only texts can differ in what is hidden.
        match text.strip_suffix('"') {
            Some(begin)
                if text != json
                    && text == redact_values(self.redactor, &mut Names::default(), earlier) =>
            {
                self.into.write(&format!("{begin}{CHANGED}\""))
            }
            _ => self.into.write(&text),
        }
    }

    fn piece(&mut self, name: &str, json: &RawValue) -> Result<()> {
        // The fast path: most pieces do not contain anything to mask, which the text alone shows.
        if self.content == Content::Everything
            || hides_nothing(json) && holds_no_secret(self.redactor, json.get())
        {
            return self.into.write(json.get());
        }
        visit_terraform_value((name, json), 0, self)
    }

    fn variable(&mut self, json: &RawValue) -> Result<()> {
        match self.content {
            Content::Clean => visit_sensitive_variable(json, self),
            Content::Everything => self.into.write(json.get()),
        }
    }
}

impl<W: Write> PlanVisitor for PlanCopy<'_, W> {
    fn written(&self) -> u64 {
        self.into.length
    }
}

/// Counts the written bytes.
struct Counted<W> {
    into: W,
    length: u64,
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
    use std::collections::BTreeSet;

    use secrecy::SecretString;

    use super::super::reading::for_tests;
    use super::super::walk::Member;
    use super::*;

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
            for_tests::survey(|| Ok(PLAN.as_bytes()), BTreeSet::from(["pin".to_owned()])).unwrap();
        assert_eq!(survey.variables, ["key", "pin"].map(str::to_owned).into());
        assert!(!survey.incomplete);
        redactor.register(&survey.secrets);
        let mut written = Vec::new();
        let cleaned =
            for_tests::clean(PLAN.as_bytes(), &survey.variables, &redactor, &mut written).unwrap();
        let members = cleaned.members;
        (String::from_utf8(written).unwrap(), members)
    }

    #[test]
    fn marked_values_are_redacted_in_the_whole_plan() {
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
    fn names_in_values_are_masked_and_labels_of_terraform_are_not() {
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
        for_tests::clean(plan.as_bytes(), &BTreeSet::new(), &redactor, &mut written).unwrap();
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
    fn members_have_their_position_in_the_copy() {
        let (text, members) = cleaned();
        for Member { name, range } in &members {
            let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            let alone: serde_json::Value =
                serde_json::from_str(&format!("{{{}}}", &text[range])).unwrap();
            assert_eq!(alone.as_object().unwrap().keys().collect::<Vec<_>>(), [name]);
        }
    }

    #[test]
    fn deeply_nested_modules_are_redacted_without_recursion() {
        let levels = 50_000;
        let modules = format!(
            r#"{}{{"resources":[{{"values":{{"v":"hunter22"}},"sensitive_values":{{"v":true}}}}]}}{}"#,
            r#"{"child_modules":["#.repeat(levels),
            "]}".repeat(levels)
        );
        let plan = format!(r#"{{"planned_values":{{"root_module":{modules}}}}}"#);
        let mut written = Vec::new();
        for_tests::clean(plan.as_bytes(), &BTreeSet::new(), &Redactor::new(), &mut written)
            .unwrap();
        let text = String::from_utf8(written).unwrap();
        assert!(!text.contains("hunter22") && text.contains("***"));
        serde_json::from_str::<&RawValue>(&text).unwrap();
    }

    #[test]
    fn malformed_plan_is_an_error() {
        for text in ["", "{", "{\"a\":}", "{\"a\":1}x", "{\"resource_changes\":[{]}", "{\"a\" 1}"] {
            let mut written = Vec::new();
            let cleaned =
                for_tests::clean(text.as_bytes(), &BTreeSet::new(), &Redactor::new(), &mut written);
            assert!(cleaned.is_err(), "{text}");
        }
    }
}
