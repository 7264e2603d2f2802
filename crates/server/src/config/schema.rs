//! The kinds of texts that a configuration contains, for its JSON Schema.
//!
//! The types of this file have no values. They describe texts that `check` parses, so that an error
//! has a position.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// Types that describe a kind of text.
macro_rules! texts {
    ($($(#[doc = $doc:literal])+ $name:ident { $($schema:tt)* })+) => {$(
        $(#[doc = $doc])+
        pub(super) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "description": concat!($($doc),+).trim(),
                    $($schema)*
                })
            }
        }
    )+};
}

texts! {
    /// The address of a repository.
    Address {"pattern": "^(https|http|ssh|file)://."}
    /// A glob. `*` does not match `/`, and `**` does.
    Glob {"minLength": 1}
    /// A name: 1 to 200 characters.
    LayerName {"pattern": "^[A-Za-z0-9._-]{1,200}$"}
    /// The name of a layer or a layer set, in which `*` matches any text.
    LayerPattern {"minLength": 1}
    /// A cron expression of five fields: minute, hour, day of the month, month, day of the week.
    CronExpression {"pattern": r"^\s*(\S+\s+){4}\S+\s*$", "examples": ["0 18 * * FRI"]}
    /// The name of a time zone in the database of IANA.
    TimeZone {"minLength": 1, "examples": ["Europe/Berlin"]}
    /// A version or a constraint, behind the name of the tool if it is not Terraform.
    ToolVersion {"minLength": 1, "examples": ["1.11.4", "opentofu-1.8.3", "tofu@1.8", "~> 1.9"]}
    /// The name of an environment variable. `HOME`, `PATH`, `TMPDIR`, names that begin with `BUTLER_`, and others that
    /// the runner sets or refuses cannot be given.
    EnvironmentName {"pattern": "^[^=]+$"}
    /// The name of a variable of the module.
    VariableName {"pattern": r"^[\p{L}_][\p{L}\p{N}_-]*$"}
}
