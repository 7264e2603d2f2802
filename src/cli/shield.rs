//! Keeps the memory and the environment of the runner from processes of the same user.
//!
//! What a module starts (providers, provisioners, `external` data sources) runs as the runner's own
//! user and could read its token from `/proc/<pid>/environ`, its secrets from `/proc/<pid>/mem`, or
//! attach to it. Only root gets past this. Children are not shielded: `execve` resets the flag.
//!
//! Memory is not locked against swapping: what a user may lock (`RLIMIT_MEMLOCK`) is less than a
//! plan, and the children, which hold the same secrets, could not be locked at all.

/// Shields this process; there are no core dumps from here on, of it or of its children: one of
/// Terraform holds secrets as well. Must be called first thing.
#[cfg(target_os = "linux")]
pub(super) fn raise() {
    use nix::sys::resource::{Resource, setrlimit};

    // Neither fails for values that exist (prctl(2), setrlimit(2)), and where a sandbox forbids the
    // calls a run without the shield is still the user's wish.
    let _ = nix::sys::prctl::set_dumpable(false);
    // One byte, not none: no file is that small, and for a program that takes core dumps from a
    // pipe the kernel minds no limit but this one.
    let _ = setrlimit(Resource::RLIMIT_CORE, 1, 1);
}

/// Other systems have no `/proc` of this kind.
#[cfg(not(target_os = "linux"))]
pub(super) fn raise() {}

/// Overwrites the values of the variables `names` in the block that this process was started with,
/// which `/proc/<pid>/environ` shows for as long as it lives. From here on they are empty; what is
/// needed of them must have been read before. Must be called before there are threads.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the block belongs to C, and only its strings are what is shown")]
pub(super) fn erase(names: &[&str]) {
    use std::ffi::{CStr, c_char};

    unsafe extern "C" {
        static environ: *const *mut c_char;
    }

    // SAFETY: `environ` is null or an array of strings that ends in null, each ending in NUL and
    // writable; nobody else reads or changes them, because there is no other thread yet. Nothing is
    // written behind a string's end, and its name and its `=` stay.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = CStr::from_ptr(*entry).to_bytes();
            let value = names.iter().find_map(|name| {
                let rest = text.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                Some((name.len() + 1, rest.len()))
            });
            if let Some((start, length)) = value {
                (*entry).add(start).write_bytes(0, length);
            }
            entry = entry.add(1);
        }
    }
}

/// Other systems have no `/proc` of this kind.
#[cfg(not(target_os = "linux"))]
pub(super) fn erase(_: &[&str]) {}
