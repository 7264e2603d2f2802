//! Pins glibc's name look-ups to what a static binary can do by itself.
//!
//! A static glibc binary loads the modules that `/etc/nsswitch.conf` names from whatever glibc the
//! host has. Where that one differs and lists `resolve` or `myhostname`, the first DNS look-up ends
//! the process with SIGFPE. Files and DNS need no module.

/// Pins the look-ups of this process. Must be called before there are threads and look-ups.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "glibc offers this as a C function only")]
pub(super) fn pin() {
    use std::ffi::{CStr, c_char, c_int};

    const LOOKUPS: [(&CStr, &CStr); 8] = [
        (c"hosts", c"files dns"),
        (c"passwd", c"files"),
        (c"group", c"files"),
        (c"shadow", c"files"),
        (c"services", c"files"),
        (c"protocols", c"files"),
        (c"networks", c"files"),
        (c"netgroup", c"files"),
    ];

    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, sources: *const c_char) -> c_int;
    }

    for (database, sources) in LOOKUPS {
        // SAFETY: both are strings that end in NUL and live for ever; glibc copies what it keeps.
        // An error leaves the host's own configuration in force, which is no worse than before.
        let _ = unsafe { __nss_configure_lookup(database.as_ptr(), sources.as_ptr()) };
    }
}

/// Other C libraries look names up by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn pin() {}
