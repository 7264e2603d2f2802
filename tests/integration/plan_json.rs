//! The plan's JSON: what is sensitive in it stays here, and no plan is too large.
