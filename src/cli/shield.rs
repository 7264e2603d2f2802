//! Keeps the memory and the environment of the runner from processes of the same user.
//!
//! What a module starts (providers, provisioners, `external` data sources) runs as the runner's own
//! user and could read its token from `/proc/<pid>/environ`, its secrets from `/proc/<pid>/mem`, or
//! attach to it. Only root gets past this. Children are not shielded: `execve` resets the flag.

/// Shields this process; there are no core dumps of it from here on. Must be called first thing.
#[cfg(target_os = "linux")]
pub(super) fn raise() {
    // It fails for no value that exists (prctl(2)), and where a sandbox forbids the call a run
    // without the shield is still the user's wish.
    let _ = nix::sys::prctl::set_dumpable(false);
}

/// Other systems have no `/proc` of this kind.
#[cfg(not(target_os = "linux"))]
pub(super) fn raise() {}
