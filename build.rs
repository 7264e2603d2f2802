//! Sets the origin of the build for `--version`.
//!
//! It does not need network or git: unknown values are `unknown`. The date is `SOURCE_DATE_EPOCH` or the commit's,
//! never the clock's, so that two builds of a commit are identical.

#![expect(
    clippy::disallowed_methods,
    reason = "Cargo passes values to a build script in its environment"
)]

use std::env::var;
use std::process::Command;

fn main() {
    for name in ["BUTLER_RUNNER_COMMIT", "SOURCE_DATE_EPOCH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let profile = var("PROFILE").unwrap_or_default();
    if var("CARGO_CFG_TARGET_FEATURE").is_ok_and(|it| it.split(',').any(|it| it == "crt-static")) {
        // The standard library falls back to fork, which copies page tables, if it does not find this symbol. Its
        // weak reference does not pull the symbol out of a static C library.
        println!("cargo:rustc-link-arg-bins=-Wl,--undefined=posix_spawn_file_actions_addchdir_np");
        if unpacks_relocations() {
            println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        }
    } else if profile == "debug" && var("TARGET").is_ok_and(|it| it.ends_with("-linux-gnu")) {
        // Tests start the runner of a debug build thousands of times, and each start would write 400,000 relocations.
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
    // Only release builds contain the commit; otherwise each commit would require a new build.
    let tree = if profile == "release" { checked_out_commit() } else { None };
    let named = var("BUTLER_RUNNER_COMMIT").ok().filter(|commit| !commit.is_empty());
    let (commit, committed) = tree.map_or((None, None), |(commit, time)| (Some(commit), time));
    let commit = named.or(commit).unwrap_or_else(|| "unknown".to_owned());
    let epoch = var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.trim().parse().ok());
    let date = epoch.or(committed).map_or_else(|| "unknown".to_owned(), date);
    println!("cargo:rustc-env=BUTLER_RUNNER_COMMIT={commit}");
    println!("cargo:rustc-env=BUTLER_RUNNER_DATE={date}");
    println!("cargo:rustc-env=BUTLER_RUNNER_TARGET={}", var("TARGET").unwrap_or_default());
    println!("cargo:rerun-if-changed=Cargo.lock");
    for (name, variable) in [("rustls", "BUTLER_RUNNER_RUSTLS"), ("ring", "BUTLER_RUNNER_RING")] {
        println!(
            "cargo:rustc-env={variable}={}",
            locked_version(name).unwrap_or_else(|| "unknown".to_owned())
        );
    }
}

/// Whether the startup code of static programs, which is part of the C library, supports the short form of relative
/// relocations (glibc 2.36 and later). The long form needs 1.4 MB.
fn unpacks_relocations() -> bool {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let stdout = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = stdout.unwrap_or_default();
    let mut numbers = version.trim().strip_prefix("glibc ").unwrap_or_default().split('.');
    let mut number = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0u32);
    var("HOST") == var("TARGET") && (number(), number()) >= (2, 36)
}

/// The checked-out commit, with `-dirty` if files differ, and its time in seconds since 1970.
fn checked_out_commit() -> Option<(String, Option<u64>)> {
    // An unpacked archive of the sources may be inside of another repository.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let same =
        std::fs::canonicalize(top).ok()? == std::env::current_dir().ok()?.canonicalize().ok()?;
    if !same {
        return None;
    }
    // Not the index: `git describe --dirty` writes it, so each build would trigger a new one.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name])
            && std::path::Path::new(&path).exists()
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let commit = git(&["describe", "--always", "--dirty", "--exclude=*", "--abbrev=40"])?;
    let time = git(&["show", "--no-patch", "--format=%ct", "HEAD"]);
    Some((commit, time.and_then(|seconds| seconds.parse().ok())))
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let stdout = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !stdout.is_empty()).then_some(stdout)
}

/// The version of a library in `Cargo.lock`, for libraries without a version constant.
fn locked_version(name: &str) -> Option<String> {
    let lock = std::fs::read_to_string("Cargo.lock").ok()?;
    let (_, package) = lock.split_once(&format!("\nname = \"{name}\"\nversion = \""))?;
    Some(package.split_once('"')?.0.to_owned())
}

/// Formats a time in seconds since 1970 as `2026-02-16`. The calendar repeats every 400 years; the computed years
/// begin in March, so that the leap day is the last day of a year.
fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
