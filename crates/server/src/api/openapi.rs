//! The OpenAPI document: from the table of routes, and from the types of queries and answers.

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::route::{BASE, Route};

/// The document.
pub(super) fn document<S>(routes: &[Route<S>]) -> Value {
    let settings = |settings: &mut SchemaSettings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    };
    let settings = SchemaSettings::draft2020_12().with(settings);
    let mut queries = settings.clone().for_deserialize().into_generator();
    let mut answers = settings.for_serialize().into_generator();
    let mut paths = Map::new();
    for route in routes {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] =
            operation(route, &mut queries, &mut answers);
    }
    let mut schemas = queries.take_definitions(true);
    schemas.append(&mut answers.take_definitions(true));
    schemas.insert("Error".to_owned(), error_schema());
    json!({
        "openapi": "3.1.0",
        "info": {"title": "butler-runner", "version": env!("CARGO_PKG_VERSION")},
        "servers": [{"url": BASE}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

/// The form of all errors.
fn error_schema() -> Value {
    let text = json!({"type": "string"});
    let error = json!({
        "type": "object",
        "required": ["code", "message", "hint"],
        "properties": {"code": text, "message": text, "hint": {"type": ["string", "null"]}},
    });
    json!({"type": "object", "required": ["error"], "properties": {"error": error}})
}

fn operation<S>(
    route: &Route<S>,
    queries: &mut SchemaGenerator,
    answers: &mut SchemaGenerator,
) -> Value {
    let shape = &route.shape;
    let names = route
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{').and_then(|part| part.strip_suffix('}')));
    let text = json!({"type": "string"});
    let mut parameters: Vec<Value> = names
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": text}))
        .collect();
    if let Some(query) = shape.query {
        parameters.extend(query_parameters(&query(queries)));
    }
    if let Some((name, description)) = shape.header {
        let header =
            json!({"name": name, "in": "header", "description": description, "schema": text});
        parameters.push(header);
    }
    let item = (shape.answer)(answers).to_value();
    let schema = if shape.is_list {
        json!({
            "type": "object",
            "required": ["items", "next"],
            "properties": {
                "items": {"type": "array", "items": item},
                "next": {
                    "description": "The value of `after` for what follows.",
                    "type": ["string", "integer", "null"],
                },
            },
        })
    } else {
        item
    };
    let mut content = json!({"application/json": {"schema": schema}});
    if let Some(media_type) = shape.also {
        content[media_type] = json!({"schema": text});
    }
    let mut operation = json!({
        "summary": route.summary,
        "description": format!("Needs the role {}.", route.role.name()),
        "parameters": parameters,
        "responses": {
            shape.status: {"description": "The request succeeded.", "content": content},
            "default": {
                "description": "An error: the request has a wrong form or body, needs another role, \
                                or a person must act first.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    });
    if let Some(body) = shape.body {
        let content = json!({"application/json": {"schema": body(queries).to_value()}});
        operation["requestBody"] = json!({"required": true, "content": content});
    }
    operation
}

/// Each field of the query is a parameter.
fn query_parameters(query: &Schema) -> Vec<Value> {
    let fields = query.get("properties").and_then(Value::as_object);
    let required = query.get("required").and_then(Value::as_array);
    let parameter = |(name, schema): (&String, &Value)| {
        let is_required = required.is_some_and(|names| names.iter().any(|it| it == name));
        json!({"name": name, "in": "query", "required": is_required, "schema": schema})
    };
    fields.into_iter().flatten().map(parameter).collect()
}
