//! The output of `--version` and `version`: the build and its libraries, for bug reports and vulnerability checks.
//! `-V` only prints the number, for scripts.

use std::sync::LazyLock;

use clap::Args;

use super::output::print;

/// Print the version, the origin of this build, and its libraries
#[derive(Args)]
pub(super) struct Version {}

impl Version {
    pub(super) fn run(self) -> u8 {
        let Self {} = self;
        print(format!("butler-runner {}\n", long()).as_bytes())
    }
}

/// The number, and lines about the origin and the libraries of the binary.
static LONG: LazyLock<String> = LazyLock::new(|| {
    let linking = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
    // `OpenSSL 3.5.4 30 Sep 2025`
    let tls: Vec<_> = openssl::version::version().split(' ').take(2).collect();
    let (major, minor, revision) = git2::Version::get().libgit2_version();
    format!(
        "{}\n\
         commit:   {}\n\
         date:     {}\n\
         target:   {}\n\
         features: {linking}, rustls {}, ring {}, {}, libgit2 {major}.{minor}.{revision}",
        env!("CARGO_PKG_VERSION"),
        env!("BUTLER_RUNNER_COMMIT"),
        env!("BUTLER_RUNNER_DATE"),
        env!("BUTLER_RUNNER_TARGET"),
        env!("BUTLER_RUNNER_RUSTLS"),
        env!("BUTLER_RUNNER_RING"),
        tls.join(" "),
    )
});

pub(super) fn long() -> &'static str {
    &LONG
}
