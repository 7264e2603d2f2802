//! Sources of releases: mirrors, credentials, proxies, certificates, failures, and machines without
//! network.

mod broken;
mod bundles;
mod given;
mod sites;

use std::path::Path;

use butler_runner::settings::{KEYS_OF_OTHER_TOOLS, MIRRORS_OF_OTHER_TOOLS, OtherToolMirror};
use expect_test::{Expect, expect};

use butler_testing::authority::Authority;
use butler_testing::canned::canned;
use butler_testing::documented::assert_documented;
use butler_testing::environment::search_path;
use butler_testing::forward_proxy::ForwardProxy;
use butler_testing::machine::{CommandOutput, Machine};
use butler_testing::release_site::{Fault, ReleaseSite, archive, platform, stand_in};

const INSTALL: [&str; 3] = ["tool", "install", "1.9.8"];

/// The header `Authorization` for `user` and `hunter2`.
const BASIC: &str = "Basic dXNlcjpodW50ZXIy";

fn site() -> ReleaseSite {
    ReleaseSite::start(&[("1.9.8", b"binary")])
}

/// A machine that logs only errors.
fn quiet(site: &ReleaseSite) -> Machine {
    let mut machine = Machine::with_site(site);
    machine.set("BUTLER_LOG", "error");
    machine
}

fn installed(said: CommandOutput, machine: &Machine) {
    let said = said.expect_success();
    assert_eq!(said.printed_path(), machine.installation("terraform", "1.9.8").join("terraform"));
    assert_eq!(std::fs::read(said.printed_path()).unwrap(), b"binary");
}

fn refused(said: &CommandOutput, message: &Expect, machine: &Machine) {
    assert_eq!(said.code, Some(1), "{said:?}");
    message.assert_eq(&said.normalized().replace(&platform(), "<platform>"));
    assert!(!machine.installation("terraform", "1.9.8").exists());
    assert!(!said.stderr.contains("hunter2"), "{said:?}");
}

fn record(machine: &Machine, version: &str) -> serde_json::Value {
    let path = machine.installation("terraform", version).join("install.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}
