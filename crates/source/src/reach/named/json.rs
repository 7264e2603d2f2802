//! Reads files in JSON syntax as the blocks and expressions that they mean.

use std::fmt;

use hcl_edit::Ident;
use hcl_edit::expr::{Array, Expression, Object, ObjectKey};
use hcl_edit::structure::{Attribute, Block, Body};
use hcl_edit::template::{Element, StringTemplate, Template};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A value with all its members, also those that have one name.
enum Json {
    Text(String),
    List(Vec<Self>),
    Members(Vec<(String, Self)>),
    /// A number, a truth value, or `null`.
    Other,
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = values.next_element()? {
            list.push(value);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut all = Vec::new();
        while let Some(member) = members.next_entry()? {
            all.push(member);
        }
        Ok(Json::Members(all))
    }
}

impl Json {
    /// A block is an object, or a list of objects.
    fn objects(&self) -> Vec<&[(String, Self)]> {
        match self {
            Self::Members(members) => vec![members],
            Self::List(values) => values.iter().flat_map(Self::objects).collect(),
            Self::Text(_) | Self::Other => Vec::new(),
        }
    }
}

/// The content of a file; `None` if it is not valid.
pub(super) fn body(text: &str) -> Option<Body> {
    let document: Json = serde_json::from_str(text).ok()?;
    let mut body = Body::new();
    for (name, value) in document.objects().into_iter().flatten() {
        let labels = match name.as_str() {
            "//" => continue,
            "resource" | "data" | "ephemeral" => 2,
            "module" | "provider" | "variable" | "output" | "check" => 1,
            _ => 0,
        };
        add_blocks(&mut body, name, value, labels, &mut Vec::new())?;
    }
    Some(body)
}

/// The values of a variable file; `None` if it is not valid.
pub(super) fn values(text: &str) -> Option<Vec<Expression>> {
    let document: Json = serde_json::from_str(text).ok()?;
    // Terraform does not evaluate them.
    Some(document.objects().into_iter().flatten().map(|(_, value)| literal(value)).collect())
}

fn add_blocks(
    body: &mut Body,
    name: &str,
    value: &Json,
    labels: usize,
    given: &mut Vec<String>,
) -> Option<()> {
    for members in value.objects() {
        if given.len() < labels {
            for (label, value) in members.iter().filter(|(label, _)| label != "//") {
                given.push(label.clone());
                add_blocks(body, name, value, labels, given)?;
                given.pop();
            }
            continue;
        }
        let mut block = Block::new(Ident::try_new(name).ok()?);
        block.labels = given.iter().map(|label| label.as_str().into()).collect();
        for (name, value) in members.iter().filter(|(name, _)| name != "//") {
            if name == "provisioner" {
                add_blocks(&mut block.body, name, value, 1, &mut Vec::new())?;
            } else {
                let name = Ident::try_new(name.as_str()).ok()?;
                block.body.push(Attribute::new(name, expression(value)?));
            }
        }
        body.push(block);
    }
    Some(())
}

fn expression(value: &Json) -> Option<Expression> {
    Some(match value {
        Json::Text(text) => template(text)?,
        Json::List(values) => {
            Expression::Array(values.iter().map(expression).collect::<Option<Array>>()?)
        }
        Json::Members(members) => {
            let mut object = Object::new();
            for (name, value) in members.iter().filter(|(name, _)| name != "//") {
                object.insert(ObjectKey::Expression(template(name)?), expression(value)?);
            }
            Expression::Object(object)
        }
        Json::Other => Expression::from(true),
    })
}

/// A text is a template. One that is a single interpolation is its expression.
fn template(text: &str) -> Option<Expression> {
    if !text.contains("${") && !text.contains("%{") {
        return Some(Expression::from(text));
    }
    let template: Template = hcl_edit::parser::parse_template(text).ok()?;
    let mut elements: Vec<Element> = template.into_iter().collect();
    if let [Element::Interpolation(_)] = elements.as_slice()
        && let Some(Element::Interpolation(inner)) = elements.pop()
    {
        return Some(inner.expr);
    }
    Some(Expression::StringTemplate(StringTemplate::from(elements)))
}

fn literal(value: &Json) -> Expression {
    match value {
        Json::Text(text) => Expression::from(text.as_str()),
        Json::List(values) => Expression::Array(values.iter().map(literal).collect()),
        Json::Members(members) => {
            let mut object = Object::new();
            for (name, value) in members {
                object.insert(ObjectKey::Expression(name.as_str().into()), literal(value));
            }
            Expression::Object(object)
        }
        Json::Other => Expression::from(true),
    }
}
