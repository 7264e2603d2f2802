//! Downloads releases from the vendor, a mirror or a bundle, and verifies them.

pub(super) mod bundle;
pub(super) mod download;
pub(super) mod login;
pub(super) mod netrc;
pub(super) mod probe;
pub(super) mod release;
pub(super) mod sites;
pub(super) mod transfer;
