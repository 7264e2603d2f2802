//! State locks and states that could not be stored, on real backends.
