//! The cost of a run of the release binary, in figures that do not depend on the load of the
//! machine: processes, requests, connections, and memory. `make bench` measures time.

mod memory;
mod processes;
mod requests;

use std::ffi::OsStr;
use std::process::Command;

use butler_testing::static_runner;
use butler_testing::world::World;

/// The release binary on the world's run, started by the command `before`.
fn released(world: &World, before: &[&OsStr]) -> Command {
    let job = world.execute();
    let runner = static_runner();
    let mut words =
        before.iter().copied().chain([runner.as_os_str()]).chain(job.as_std().get_args());
    let mut command = Command::new(words.next().expect("the runner at least"));
    command.args(words).env_clear();
    command.envs(job.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// A shell command that prints this number of lines with 100 bytes each, including the line feed.
/// Every hundredth line contains `word`.
fn print_lines(count: u32, word: &str) -> String {
    format!(
        "awk 'BEGIN {{ for (i = 1; i <= {count}; i++) \
         printf \"aws_instance.example[%07d]: Still creating... [10s elapsed] %-40s\\n\", \
         i, i % 100 ? \"\" : \"{word}\" }}'"
    )
}
