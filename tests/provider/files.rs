//! A provider for tests: each resource `files_file` is a file on disk.
//!
//! A file that another program changes or removes is drift, as with real infrastructure. A resource
//! with `gate` is created or updated only when the file of that name exists, so that a test can hold
//! an apply in the middle. The data source `files_archive` writes a file whenever it is read, as
//! `archive_file` does. The provider speaks the protocol of Terraform's providers, and is started by the real
//! Terraform from a filesystem mirror.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tf_provider::schema::{Attribute, AttributeConstraint, AttributeType, Block, Schema};
use tf_provider::value::{ValueEmpty, ValueString};
use tf_provider::{
    AttributePath, DataSource, Diagnostics, DynamicDataSource, DynamicResource, Provider, Resource,
    map, serve,
};

/// The time between two looks at a gate.
const LOOK: Duration = Duration::from_millis(10);

/// A file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct FileState<'a> {
    /// Its absolute path.
    #[serde(borrow = "'a")]
    path: ValueString<'a>,
    content: ValueString<'a>,
    /// The file that must exist before this one is written.
    gate: ValueString<'a>,
    /// The path, once the file was written.
    id: ValueString<'a>,
}

impl FileState<'_> {
    /// Waits for the gate, and writes the file.
    async fn write(&self, diagnostics: &mut Diagnostics) -> Option<()> {
        if let Some(gate) = self.gate.as_deref_option() {
            while !Path::new(gate).exists() {
                tokio::time::sleep(LOOK).await;
            }
        }
        let path = self.path.as_deref_option().unwrap_or_default();
        let content = self.content.as_deref_option().unwrap_or_default();
        match std::fs::write(path, content) {
            Ok(()) => Some(()),
            Err(error) => {
                diagnostics.root_error("cannot write a file", format!("`{path}`: {error}"));
                None
            }
        }
    }
}

/// The resource `files_file`.
struct File;

#[async_trait]
impl Resource for File {
    type State<'a> = FileState<'a>;
    type PrivateState<'a> = ValueEmpty;
    type ProviderMetaState<'a> = ValueEmpty;

    fn schema(&self, _: &mut Diagnostics) -> Option<Schema> {
        let text = |constraint| Attribute {
            attr_type: AttributeType::String,
            constraint,
            ..Attribute::default()
        };
        let attributes = map! {
            "path" => text(AttributeConstraint::Required),
            "content" => text(AttributeConstraint::Required),
            "gate" => text(AttributeConstraint::Optional),
            "id" => text(AttributeConstraint::Computed),
        };
        Some(Schema { version: 1, block: Block { attributes, ..Block::default() } })
    }

    async fn read<'a>(
        &self,
        _: &mut Diagnostics,
        mut state: FileState<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(FileState<'a>, ValueEmpty)> {
        let path = state.path.as_deref_option().unwrap_or_default();
        // A file that is gone was destroyed by another program.
        let content = std::fs::read_to_string(path).ok()?;
        state.content = ValueString::from(Cow::Owned(content));
        Some((state, private))
    }

    async fn plan_create<'a>(
        &self,
        _: &mut Diagnostics,
        mut proposed: FileState<'a>,
        _: FileState<'a>,
        _: ValueEmpty,
    ) -> Option<(FileState<'a>, ValueEmpty)> {
        proposed.id = ValueString::Unknown;
        Some((proposed, ValueEmpty::default()))
    }

    async fn plan_update<'a>(
        &self,
        _: &mut Diagnostics,
        prior: FileState<'a>,
        proposed: FileState<'a>,
        _: FileState<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(FileState<'a>, ValueEmpty, Vec<AttributePath>)> {
        let is_moved = proposed.path != prior.path;
        let replace = if is_moved { vec![AttributePath::new("path")] } else { Vec::new() };
        Some((proposed, private, replace))
    }

    async fn plan_destroy<'a>(
        &self,
        _: &mut Diagnostics,
        _: FileState<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<ValueEmpty> {
        Some(private)
    }

    async fn create<'a>(
        &self,
        diagnostics: &mut Diagnostics,
        mut planned: FileState<'a>,
        _: FileState<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(FileState<'a>, ValueEmpty)> {
        planned.write(diagnostics).await?;
        planned.id = planned.path.clone();
        Some((planned, private))
    }

    async fn update<'a>(
        &self,
        diagnostics: &mut Diagnostics,
        _: FileState<'a>,
        planned: FileState<'a>,
        _: FileState<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(FileState<'a>, ValueEmpty)> {
        planned.write(diagnostics).await?;
        Some((planned, private))
    }

    async fn destroy<'a>(
        &self,
        diagnostics: &mut Diagnostics,
        state: FileState<'a>,
        _: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<()> {
        let path = state.path.as_deref_option().unwrap_or_default();
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                diagnostics.root_error("cannot remove a file", format!("`{path}`: {error}"));
                None
            }
            _ => Some(()),
        }
    }
}

/// The data source `files_archive`.
struct Archive;

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct ArchiveState<'a> {
    #[serde(borrow = "'a")]
    path: ValueString<'a>,
    content: ValueString<'a>,
}

#[async_trait]
impl DataSource for Archive {
    type State<'a> = ArchiveState<'a>;
    type ProviderMetaState<'a> = ValueEmpty;

    fn schema(&self, _: &mut Diagnostics) -> Option<Schema> {
        let required = || Attribute {
            attr_type: AttributeType::String,
            constraint: AttributeConstraint::Required,
            ..Attribute::default()
        };
        let attributes = map! { "path" => required(), "content" => required() };
        Some(Schema { version: 1, block: Block { attributes, ..Block::default() } })
    }

    async fn read<'a>(
        &self,
        diagnostics: &mut Diagnostics,
        config: ArchiveState<'a>,
        _: ValueEmpty,
    ) -> Option<ArchiveState<'a>> {
        let path = config.path.as_deref_option().unwrap_or_default();
        let content = config.content.as_deref_option().unwrap_or_default();
        let parent = Path::new(path).parent().unwrap_or(Path::new(""));
        match std::fs::create_dir_all(parent).and_then(|()| std::fs::write(path, content)) {
            Ok(()) => Some(config),
            Err(error) => {
                diagnostics.root_error("cannot write a file", format!("`{path}`: {error}"));
                None
            }
        }
    }
}

struct Files;

impl Provider for Files {
    type Config<'a> = ValueEmpty;
    type MetaState<'a> = ValueEmpty;

    fn schema(&self, _: &mut Diagnostics) -> Option<Schema> {
        Some(Schema { version: 1, block: Block::default() })
    }

    fn get_resources(
        &self,
        _: &mut Diagnostics,
    ) -> Option<HashMap<String, Box<dyn DynamicResource>>> {
        Some(map! { "file" => File })
    }

    fn get_data_sources(
        &self,
        _: &mut Diagnostics,
    ) -> Option<HashMap<String, Box<dyn DynamicDataSource>>> {
        Some(map! { "archive" => Archive })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    serve("files", Files).await
}
