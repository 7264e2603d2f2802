//! Templates of objects: JSON with placeholders in its texts.
//!
//! A placeholder is `${commit}`, `${follower}`, `${stage}` or `${name}`; `$${` is a literal `${`.
//! Only texts are replaced, so a value can never change the structure of an object.

use serde_json::{Map, Value};

use super::name::Purpose;
use super::reference::ObjectReference;

/// The label with the follower's id.
pub const FOLLOWER_LABEL: &str = "butler.dev/follower";

/// The label with the stage's name.
pub const STAGE_LABEL: &str = "butler.dev/stage";

/// The annotation with the source commit. A SHA-256 commit is too long for a label.
pub const COMMIT_ANNOTATION: &str = "butler.dev/source-commit";

/// The shortest time that a Job stays after its end, in seconds: longer than a server needs to be replaced.
const SHORTEST_TTL: u64 = 600;

/// The names of the placeholders.
const PLACEHOLDERS: [&str; 4] = ["commit", "follower", "stage", "name"];

/// An object that a stage creates.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    body: Map<String, Value>,
    api_version: String,
    kind: String,
    namespace: String,
}

/// Why a template cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// It is not an object, or a required field is missing or has another type.
    #[error("the template must have {0}")]
    Missing(&'static str),
    /// The name is derived from the commit, so a fixed name is wrong.
    #[error("the template must not set `metadata.{0}`: the name is derived; use `${{name}}`")]
    FixedName(&'static str),
    /// A Job would be removed before its end was read, and then be created again.
    #[error(
        "`spec.ttlSecondsAfterFinished` must be at least {SHORTEST_TTL}: a Job that is removed before its end was read \
         would be created again"
    )]
    ShortLived,
    /// A placeholder does not exist.
    #[error(
        "unknown placeholder `${{{0}}}`; use `commit`, `follower`, `stage` or `name`, or write \
         `$${{` for a literal `${{`"
    )]
    Placeholder(String),
}

impl Template {
    /// Checks a template. Without a namespace of its own, the object is in `default_namespace`.
    ///
    /// # Errors
    /// A required field is missing, the name is fixed, or a placeholder does not exist.
    pub fn parse(template: Value, default_namespace: &str) -> Result<Self, TemplateError> {
        let Value::Object(body) = template else {
            return Err(TemplateError::Missing("the fields of an object"));
        };
        check_placeholders(&Value::Object(body.clone()))?;
        let api_version =
            text(&body, "apiVersion").ok_or(TemplateError::Missing("`apiVersion`"))?;
        let kind = text(&body, "kind").ok_or(TemplateError::Missing("`kind`"))?;
        let ttl = body.get("spec").and_then(|spec| spec["ttlSecondsAfterFinished"].as_u64());
        if kind == "Job" && ttl.is_some_and(|ttl| ttl < SHORTEST_TTL) {
            return Err(TemplateError::ShortLived);
        }
        let empty = Map::new();
        let metadata = match body.get("metadata") {
            None => &empty,
            Some(Value::Object(metadata)) => metadata,
            Some(_) => return Err(TemplateError::Missing("an object as `metadata`")),
        };
        if metadata.contains_key("generateName") {
            return Err(TemplateError::FixedName("generateName"));
        }
        if metadata.get("name").is_some_and(|name| name != "${name}") {
            return Err(TemplateError::FixedName("name"));
        }
        for key in ["labels", "annotations"] {
            if metadata.get(key).is_some_and(|map| !map.is_object()) {
                return Err(TemplateError::Missing("objects as labels and annotations"));
            }
        }
        let namespace = match metadata.get("namespace") {
            None => default_namespace.to_owned(),
            Some(Value::String(namespace)) if !namespace.contains("${") => namespace.clone(),
            Some(_) => return Err(TemplateError::Missing("a fixed text as `metadata.namespace`")),
        };
        Ok(Self { body, api_version, kind, namespace })
    }

    /// The kind and the namespace of all objects of the template. Their names are derived.
    #[must_use]
    pub fn kind_of_object(&self) -> ObjectReference {
        ObjectReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            namespace: Some(self.namespace.clone()),
            name: String::new(),
        }
    }

    /// The object that the template becomes for `purpose`.
    #[must_use]
    pub fn reference(&self, purpose: &Purpose<'_>) -> ObjectReference {
        ObjectReference { name: purpose.object_name(), ..self.kind_of_object() }
    }

    /// The object for `purpose`, with its name, and with labels and an annotation that identify it.
    #[must_use]
    pub fn render(&self, purpose: &Purpose<'_>) -> Value {
        let name = purpose.object_name();
        let value_of = |placeholder: &str| match placeholder {
            "commit" => Some(purpose.commit.as_str()),
            "follower" => Some(purpose.follower),
            "stage" => Some(purpose.stage),
            "name" => Some(name.as_str()),
            _ => None,
        };
        let mut object = replaced(&Value::Object(self.body.clone()), &value_of);
        object["metadata"]["name"] = name.as_str().into();
        object["metadata"]["namespace"] = self.namespace.as_str().into();
        object["metadata"]["labels"][FOLLOWER_LABEL] = purpose.follower.into();
        object["metadata"]["labels"][STAGE_LABEL] = purpose.stage.into();
        object["metadata"]["annotations"][COMMIT_ANNOTATION] = purpose.commit.as_str().into();
        object
    }
}

fn text(body: &Map<String, Value>, key: &str) -> Option<String> {
    let text = body.get(key)?.as_str().filter(|text| !text.is_empty() && !text.contains("${"))?;
    Some(text.to_owned())
}

/// One part of a text.
enum Piece<'a> {
    Literal(&'a str),
    Placeholder(&'a str),
}

/// The parts of a text. A placeholder without an end is literal text.
fn pieces(mut text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    while let Some(start) = text.find("${") {
        let (before, rest) = text.split_at(start);
        if let Some(before) = before.strip_suffix('$') {
            pieces.extend([Piece::Literal(before), Piece::Literal("${")]);
            text = &rest[2..];
        } else if let Some((name, after)) = rest[2..].split_once('}') {
            pieces.extend([Piece::Literal(before), Piece::Placeholder(name)]);
            text = after;
        } else {
            break;
        }
    }
    pieces.push(Piece::Literal(text));
    pieces
}

fn check_placeholders(value: &Value) -> Result<(), TemplateError> {
    match value {
        Value::String(text) => {
            let unknown = pieces(text).into_iter().find_map(|piece| match piece {
                Piece::Placeholder(name) if !PLACEHOLDERS.contains(&name) => Some(name.to_owned()),
                Piece::Placeholder(_) | Piece::Literal(_) => None,
            });
            unknown.map_or(Ok(()), |name| Err(TemplateError::Placeholder(name)))
        }
        Value::Array(values) => values.iter().try_for_each(check_placeholders),
        Value::Object(map) => map.values().try_for_each(check_placeholders),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn replaced<'a>(value: &Value, value_of: &impl Fn(&str) -> Option<&'a str>) -> Value {
    match value {
        Value::String(text) => {
            let parts = pieces(text).into_iter().map(|piece| match piece {
                Piece::Literal(text) => text,
                Piece::Placeholder(name) => value_of(name).unwrap_or_default(),
            });
            Value::String(parts.collect())
        }
        Value::Array(values) => values.iter().map(|value| replaced(value, value_of)).collect(),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| (key.clone(), replaced(value, value_of)));
            Value::Object(pairs.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commit::Commit;

    fn job(metadata: &Value, argument: &str) -> Value {
        let spec = json!({"args": [argument]});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    }

    #[test]
    fn placeholders_become_values_and_nothing_else_changes() {
        let template =
            job(&json!({"labels": {"team": "shop"}}), "${commit} $${HOME} $(ID) ${stage}");
        let template = Template::parse(template, "ci").unwrap();
        let commit = Commit::parse(&"c".repeat(40)).unwrap();
        let purpose = Purpose { follower: "web", stage: "build", commit: &commit, attempt: 1 };
        let object = template.render(&purpose);
        assert_eq!(object["spec"]["args"][0], format!("{commit} ${{HOME}} $(ID) build"));
        assert_eq!(object["metadata"]["name"], purpose.object_name());
        assert_eq!(object["metadata"]["namespace"], "ci");
        assert_eq!(object["metadata"]["labels"]["team"], "shop");
        assert_eq!(object["metadata"]["labels"][FOLLOWER_LABEL], "web");
        assert_eq!(object["metadata"]["annotations"][COMMIT_ANNOTATION], commit.as_str());
        assert_eq!(template.reference(&purpose).name, purpose.object_name());
    }

    #[test]
    fn templates_with_fixed_names_or_unknown_placeholders_are_refused() {
        let refused = |template| Template::parse(template, "ci").unwrap_err().to_string();
        assert!(refused(job(&json!({"name": "build"}), "")).contains("`metadata.name`"));
        assert!(refused(job(&json!({"generateName": "x-"}), "")).contains("generateName"));
        assert!(refused(job(&json!({}), "${branch}")).contains("`${branch}`"));
        assert!(refused(job(&json!({"namespace": "${stage}"}), "")).contains("namespace"));
        let spec = json!({"ttlSecondsAfterFinished": 60});
        let short = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec});
        assert!(refused(short).contains("must be at least 600"));
        assert!(refused(json!({"kind": "Job"})).contains("`apiVersion`"));
        assert!(refused(json!([])).contains("object"));
    }
}
