//! The runner's own memory when it says how the run ended.
