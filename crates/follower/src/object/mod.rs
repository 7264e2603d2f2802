//! Native objects: their derived names, references, and templates.

mod name;
mod reference;
mod template;

pub use name::Purpose;
pub use reference::ObjectReference;
pub use template::{COMMIT_ANNOTATION, FOLLOWER_LABEL, STAGE_LABEL, Template, TemplateError};
