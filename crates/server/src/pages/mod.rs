//! The pages for people. They work without JavaScript; a small script follows logs and events.
//!
//! Each page is rendered from what the API reads. Each change is a form, which is made into the request of the API
//! at the same path, so the API's rules hold for pages too (`actions`).

mod actions;
mod address;
mod assets;
mod commits;
mod followers;
mod form;
mod guard;
mod layer;
mod layout;
mod lists;
mod log_view;
mod message;
mod overview;
mod result;
mod routes;
mod run;
mod run_row;
mod sign_in;
mod state_words;
#[cfg(test)]
mod tests;
mod when;

pub use routes::{PAGES, PageRoute, router, routes};
