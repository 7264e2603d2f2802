//! The commands of `tool`, typed in on a machine of their own, against a release site on loopback.

use expect_test::expect;

use crate::support::machine::Machine;
use crate::support::release_site::{Fault, ReleaseSite};

#[test]
fn install_prints_the_path_and_asks_nobody_the_second_time() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let machine = Machine::with_site(&site);
    let said = machine.run(&["tool", "install", "1.9.8"]).well();
    assert_eq!(said.printed_path(), machine.kept("terraform", "1.9.8").join("terraform"));
    let requests = site.requests().len();
    let again = machine.run(&["terraform", "install", "v1.9.8", "--json"]).well();
    assert_eq!(again.json()["path"], said.stdout.trim_end());
    assert_eq!(again.json()["downloaded"], false);
    assert_eq!(site.requests().len(), requests);
}

#[test]
fn a_signature_by_a_stranger_is_refused_and_says_what_to_do() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    site.misbehave("SHA256SUMS.72D7468F.sig", Fault::ByAnother);
    let mut machine = Machine::with_site(&site);
    machine.set("BUTLER_LOG", "error");
    let said = machine.run(&["tool", "install", "1.9.8"]);
    let issuer = said.stderr.split('`').nth(3).unwrap();
    expect![[r"
        exit 1
        error: cannot trust terraform 1.9.8 from `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: the signature is by the unknown key `<stranger>`
        hint: if the site is yours, name its public key with --signing-key
    "]].assert_eq(&said.shown().replace(issuer, "<stranger>"));
}
