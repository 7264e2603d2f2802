//! Texts that several commands append to their `--help`.

/// The exit codes, for `--help`.
pub(super) const EXIT_CODES: &str = "Exit codes: 0 success, 1 the run failed, 2 usage, 3 cancelled by the registry, \
4 registry unreachable or request rejected, 128+n stopped by signal n";

/// A pointer from `-h` to `--help`.
pub(super) const MORE_FLAGS: &str = "`--help` shows all flags, with their variables and defaults";
