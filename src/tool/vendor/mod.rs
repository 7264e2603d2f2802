//! What vendors publish and how they sign it: a product is a table entry, and a signature has one
//! rule.

pub(super) mod certificates;
pub(super) mod checksums;
pub(super) mod index;
pub(super) mod lifetime;
pub(super) mod platform;
pub(super) mod product;
pub(super) mod release_urls;
pub(super) mod verify;
