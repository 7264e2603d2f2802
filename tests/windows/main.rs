//! Tests for Windows: runs that complete, and commands that end with their runner.
//!
//! `make windows-test` builds it for Windows and runs it there, or under Wine. The executable is
//! also the stand-in for Terraform, because the real one cannot be downloaded everywhere and the
//! tests are about how commands are started and ended. It has no harness, so that a copy of it can
//! be `terraform.exe`.
#![cfg_attr(
    windows,
    expect(
        clippy::disallowed_methods,
        clippy::print_stdout,
        clippy::unwrap_used,
        reason = "it is a test, and speaks as Terraform does"
    )
)]

#[cfg(not(windows))]
fn main() {}

#[cfg(windows)]
mod run;
#[cfg(windows)]
mod stand_in;

#[cfg(windows)]
fn main() -> std::process::ExitCode {
    let own = std::env::current_exe().unwrap();
    if own.file_stem().is_some_and(|name| name == stand_in::NAME) {
        return stand_in::main();
    }
    let tests: [(&str, fn()); 3] = [
        ("plan_apply_and_destroy_go_through_and_leave_nothing", run::demo_goes_through),
        ("commands_end_with_a_runner_that_is_killed", run::commands_end_with_their_runner),
        ("a_command_is_asked_to_end_by_ctrl_break", run::command_is_asked_to_end),
    ];
    for (name, test) in tests {
        println!("test {name} ...");
        test();
    }
    println!("{} passed", tests.len());
    std::process::ExitCode::SUCCESS
}
