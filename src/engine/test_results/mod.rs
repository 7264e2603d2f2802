//! The results of `terraform test`.

pub(super) mod cleanup;
pub(super) mod counts;
pub(super) mod junit;
