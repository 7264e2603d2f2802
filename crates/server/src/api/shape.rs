//! The parameters and the answer of a request, for the OpenAPI document.

use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Makes the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What a request takes, and what it is answered with if it succeeds.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(super) status: &'static str,
    pub(super) answer: SchemaOf,
    pub(super) is_list: bool,
    pub(crate) query: Option<SchemaOf>,
    pub(crate) body: Option<SchemaOf>,
    pub(super) header: Option<(&'static str, &'static str)>,
    /// A further type of content.
    pub(super) also: Option<&'static str>,
}

impl Shape {
    /// The answer is a `T`.
    pub(super) fn of<T: JsonSchema>() -> Self {
        let answer: SchemaOf = |generator| generator.subschema_for::<T>();
        let (query, body, header, also) = (None, None, None, None);
        Self { status: "200", answer, is_list: false, query, body, header, also }
    }

    /// The answer is a list of `T`.
    pub(super) fn list<T: JsonSchema>() -> Self {
        Self { is_list: true, ..Self::of::<T>() }
    }

    /// The query is a `T`: each of its fields is a parameter.
    pub(super) fn query<T: JsonSchema>(self) -> Self {
        Self { query: Some(|generator| T::json_schema(generator)), ..self }
    }

    /// The body is a `T`, as JSON.
    pub(super) fn body<T: JsonSchema>(self) -> Self {
        Self { body: Some(SchemaGenerator::subschema_for::<T>), ..self }
    }

    /// The status of the answer is 202: what was asked for is done later.
    pub(super) fn accepted(self) -> Self {
        Self { status: "202", ..self }
    }

    /// The request can have this header.
    pub(super) fn header(self, name: &'static str, description: &'static str) -> Self {
        Self { header: Some((name, description)), ..self }
    }

    /// The answer has another type if the client accepts it.
    pub(super) fn also(self, media_type: &'static str) -> Self {
        Self { also: Some(media_type), ..self }
    }

    /// The answer is a stream if the client accepts that.
    pub(super) fn streamed(self) -> Self {
        let description = "The `id` of the last message of a stream.";
        self.also("text/event-stream").header("Last-Event-ID", description)
    }
}
