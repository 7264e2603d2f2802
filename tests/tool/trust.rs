//! Trusted signatures: by which key, over which content and at which time. The install command runs
//! with a site whose files are signed by gpg, as a mirror's operator would do it.

use expect_test::{Expect, expect};

use butler_testing::gpg::{Day, Gpg};
use butler_testing::machine::Machine;
use butler_testing::release_site::{Fault, ReleaseSite, terragrunt_stand_in};
use butler_testing::vendors::Vendors;

/// Installs from a mirror whose operator signed the checksum file with a key that expires.
struct Mirror {
    site: ReleaseSite,
    gpg: Gpg,
    machine: Machine,
}

impl Mirror {
    /// A mirror with a key that was created on that day.
    fn with_key(algorithm: &str, made: Day) -> Self {
        let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
        let gpg = Gpg::with_key(algorithm, made);
        let machine = Machine::with_site(&site);
        Self { site, gpg, machine }
    }

    /// Signs on that day, and serves the signature.
    fn sign(&self, day: Day, hash: &str) {
        let signature = self.gpg.sign(&self.site.file("SHA256SUMS").1, day, hash);
        self.site.replace("SHA256SUMS.72D7468F.sig", signature);
    }

    /// The output of an installation with its warnings.
    fn says(&mut self, expected: &Expect) {
        self.machine.set("BUTLER_SIGNING_KEY", self.gpg.key_file());
        self.machine.set("BUTLER_LOG", "warn");
        self.machine.replace_in_output(self.gpg.fingerprint(), "<key>");
        expected.assert_eq(&without_variable_text(
            self.machine.run(&["tool", "install", "1.9.8"]).normalized(),
        ));
    }

    fn has_installed(&self) -> bool {
        self.machine.installation("terraform", "1.9.8").exists()
    }
}

#[test]
fn signing_key_of_a_mirror_is_trusted_only_if_configured() {
    let mut mirror = Mirror::with_key("ed25519", -60);
    mirror.sign(-10, "SHA256");
    mirror.says(&expect![[r"
        exit 0
        <machine>/cache/terraform/1.9.8/terraform
    "]]);
    assert!(mirror.has_installed());
}

#[test]
fn release_signed_before_the_key_expired_is_installed_with_a_warning() {
    let mut mirror = Mirror::with_key("ed25519", -60);
    mirror.sign(-40, "SHA256");
    mirror.gpg.expire(-60, -20);
    mirror.says(&expect![[r#"
        exit 0
        <machine>/cache/terraform/1.9.8/terraform
        WARN the signing key expired later; the older signature remains valid request=terraform 1.9.8 signer="<key>"
    "#]]);
    assert!(mirror.has_installed());
}

#[test]
fn release_signed_after_the_key_expired_is_refused() {
    let mut mirror = Mirror::with_key("ed25519", -60);
    mirror.sign(-10, "SHA256");
    mirror.gpg.expire(-60, -20);
    mirror.says(&expect![[r"
        exit 1
        error: cannot trust terraform 1.9.8 from `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: the signing key is not acceptable: The primary key is not live: Expired on <time>
        hint: do not use this download; if the key was renewed, update butler-runner or give the renewed key with --signing-key
    "]]);
    assert!(!mirror.has_installed());
}

#[test]
fn key_that_expires_soon_causes_a_warning() {
    let mut mirror = Mirror::with_key("ed25519", -60);
    mirror.sign(-10, "SHA256");
    mirror.gpg.expire(-60, 100);
    mirror.machine.set("BUTLER_SIGNING_KEY", mirror.gpg.key_file());
    let said = mirror.machine.run(&["tool", "install", "1.9.8"]).expect_success();
    assert!(said.stderr.contains("expires soon"), "{}", said.stderr);

    let mut mirror = Mirror::with_key("ed25519", -60);
    mirror.sign(-10, "SHA256");
    mirror.gpg.expire(-60, 200);
    mirror.machine.set("BUTLER_SIGNING_KEY", mirror.gpg.key_file());
    let said = mirror.machine.run(&["tool", "install", "1.9.8"]).expect_success();
    assert!(!said.stderr.contains("expires soon"), "{}", said.stderr);
}

#[test]
fn signature_from_the_future_is_refused() {
    let mut mirror = Mirror::with_key("ed25519", -60);
    mirror.sign(30, "SHA256");
    mirror.says(&expect![[r"
        exit 1
        error: cannot trust terraform 1.9.8 from `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: the signature was made at <time>, which is in the future for this machine
        hint: set the clock of this machine: `butler-runner doctor` compares it with those of servers
    "]]);
    assert!(!mirror.has_installed());
}

#[test]
fn signature_of_a_revoked_key_is_refused() {
    let mut mirror = Mirror::with_key("ed25519", -60);
    mirror.sign(-10, "SHA256");
    mirror.gpg.revoke();
    mirror.says(&expect![[r#"
        exit 1
        error: cannot trust terraform 1.9.8 from `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: the signing key is not acceptable: Invalid key: "certificate is revoked"
        hint: do not use this download; if the key was renewed, update butler-runner or give the renewed key with --signing-key
    "#]]);
    assert!(!mirror.has_installed());
}

#[test]
fn signature_over_a_weak_hash_is_refused() {
    let mut mirror = Mirror::with_key("rsa2048", -60);
    mirror.sign(-10, "SHA1");
    mirror.says(&expect![[r"
        exit 1
        error: cannot trust terraform 1.9.8 from `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: the signature is not valid: Policy rejected non-revocation signature (Binary) requiring collision resistance: SHA1 is not considered secure since <time>
        hint: do not use this download; check that the --mirror site and proxies do not modify files
    "]]);
    assert!(!mirror.has_installed());
}

#[test]
fn wrong_signature_and_modified_checksums_are_refused() {
    let cases: [(&str, Fault, Expect); 5] = [
        (
            "SHA256SUMS.72D7468F.sig",
            Fault::ByAnother,
            expect![[r"
            exit 1
            error: cannot trust terraform 1.9.8 from `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: the signature is by the unknown key `<hex>`
            hint: if the site is yours, name its public key with --signing-key
        "]],
        ),
        (
            "SHA256SUMS.72D7468F.sig",
            Fault::Halved,
            expect![[r"
            exit 1
            error: cannot trust terraform 1.9.8 from `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: the signature is not valid: Malformed packet: Truncated packet
            hint: do not use this download; check that the --mirror site and proxies do not modify files
        "]],
        ),
        (
            "SHA256SUMS",
            Fault::Changed,
            expect![[r"
            exit 1
            error: cannot trust terraform 1.9.8 from `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: the signature is not valid: Message has been manipulated
            hint: do not use this download; check that the --mirror site and proxies do not modify files
        "]],
        ),
        (
            ".zip",
            Fault::Changed,
            expect![[r"
            exit 1
            error: `<site>/terraform/1.9.8/terraform_1.9.8_<platform>.zip` is not the archive that was signed: its SHA-256 is <hex>, not <hex>
            hint: do not use this download; check that the --mirror site and proxies do not modify files
        "]],
        ),
        (
            ".zip",
            Fault::Halved,
            expect![[r"
            exit 1
            error: `<site>/terraform/1.9.8/terraform_1.9.8_<platform>.zip` is not the archive that was signed: its SHA-256 is <hex>, not <hex>
            hint: do not use this download; check that the --mirror site and proxies do not modify files
        "]],
        ),
    ];
    for (file, fault, expected) in cases {
        let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
        site.inject_fault(file, fault);
        let mut machine = Machine::with_site(&site);
        machine.set("BUTLER_LOG", "error");
        machine.replace_in_output(butler_testing::release_site::platform(), "<platform>");
        let said = machine.run(&["tool", "install", "1.9.8"]);
        expected.assert_eq(&without_variable_text(said.normalized()));
        assert!(!machine.installation("terraform", "1.9.8").exists());
    }
}

/// `text` without key ids, checksums and times.
fn without_variable_text(text: &str) -> String {
    let is_hex = |word: &str| word.len() >= 16 && word.chars().all(|c| c.is_ascii_hexdigit());
    let is_time = |word: &str| word.len() == 20 && word.ends_with('Z') && word.contains('T');
    let mut shown = String::new();
    for piece in text.split_inclusive([' ', '`', ',', '\n']) {
        let word = piece.trim_end_matches([' ', '`', ',', '\n']);
        shown.push_str(match word {
            word if is_hex(word) => "<hex>",
            word if is_time(word) => "<time>",
            word => word,
        });
        shown.push_str(&piece[word.len()..]);
    }
    shown
}

#[test]
fn opentofu_with_only_a_cosign_signature_is_refused_with_a_reason() {
    let site = ReleaseSite::start(&[("opentofu-1.6.0", b"binary")]);
    site.inject_fault("SHA256SUMS.gpgsig", Fault::Missing);
    let mut machine = Machine::with_site(&site);
    machine.set("BUTLER_LOG", "error");
    expect![[r"
        exit 1
        error: opentofu 1.6.0 has no OpenPGP signature at `<site>/opentofu/opentofu/releases/download/v1.6.0/tofu_1.6.0_SHA256SUMS.gpgsig`: `<site>/opentofu/opentofu/releases/download/v1.6.0/tofu_1.6.0_SHA256SUMS.gpgsig` does not exist
        hint: choose a version that is signed with OpenPGP, put this one on PATH, or check that --mirror has the signatures; OpenTofu 1.6.0 is signed with cosign only, which the runner does not verify
    "]].assert_eq(machine.run(&["tool", "--product", "tofu", "install", "1.6.0"]).normalized());
}

#[test]
fn terragrunt_is_installed_from_its_own_site_layout() {
    let script = terragrunt_stand_in("0.99.1");
    let site = ReleaseSite::start(&[("terragrunt-0.99.1", script.as_bytes())]);
    let machine = Machine::with_site(&site);
    let said =
        machine.run(&["tool", "--product", "terragrunt", "install", "0.99.1"]).expect_success();
    assert_eq!(
        said.printed_path(),
        machine.installation("terragrunt", "0.99.1").join("terragrunt")
    );
    assert_eq!(std::fs::read_to_string(said.printed_path()).unwrap(), script);
    let base = "/gruntwork-io/terragrunt/releases/download/v0.99.1";
    let file = format!("terragrunt_{}", butler_testing::release_site::platform());
    let files = ["SHA256SUMS", "SHA256SUMS.gpgsig", &file].map(|name| format!("{base}/{name}"));
    assert_eq!(site.requests(), files);
}

#[test]
fn missing_signature_of_a_signed_terragrunt_version_is_refused() {
    let script = terragrunt_stand_in("0.98.0");
    let site = ReleaseSite::start(&[("terragrunt-0.98.0", script.as_bytes())]);
    site.inject_fault("SHA256SUMS.gpgsig", Fault::Missing);
    let vendors = Vendors::are(&site);
    let expected = expect![[r"
        exit 1
        error: terragrunt 0.98.0 has no OpenPGP signature at `<site>/gruntwork-io/terragrunt/releases/download/v0.98.0/SHA256SUMS.gpgsig`: `<site>/gruntwork-io/terragrunt/releases/download/v0.98.0/SHA256SUMS.gpgsig` does not exist
        hint: choose a version that is signed with OpenPGP, put this one on PATH, or check that --mirror has the signatures
    "]];
    for mut machine in [Machine::with_site(&site), vendors.machine(&site)] {
        machine.set("BUTLER_LOG", "error");
        machine.replace_in_output("https://github.com", "<site>");
        expected.assert_eq(
            machine.run(&["tool", "--product", "terragrunt", "install", "0.98.0"]).normalized(),
        );
        assert!(!machine.installation("terragrunt", "0.98.0").exists());
    }
}

#[test]
fn unsigned_old_terragrunt_is_installed_from_the_vendor_only_and_marked_unsigned() {
    let script = terragrunt_stand_in("0.55.1");
    let site = ReleaseSite::start(&[("terragrunt-0.55.1", script.as_bytes())]);
    site.inject_fault("SHA256SUMS.gpgsig", Fault::Missing);

    let mut mirrored = Machine::with_site(&site);
    mirrored.set("BUTLER_LOG", "error");
    expect![[r"
        exit 1
        error: terragrunt 0.55.1 has no OpenPGP signature at `<site>/gruntwork-io/terragrunt/releases/download/v0.55.1/SHA256SUMS.gpgsig`: `<site>/gruntwork-io/terragrunt/releases/download/v0.55.1/SHA256SUMS.gpgsig` does not exist
        hint: choose a version that is signed with OpenPGP, put this one on PATH, or check that --mirror has the signatures; the vendor did not sign this version yet, so it is installed only from the vendor's own site, or with --url and --checksum; the operator of a mirror can sign its `SHA256SUMS` and give the key with --signing-key
    "]].assert_eq(mirrored.run(&["tool", "--product", "terragrunt", "install", "0.55.1"]).normalized());
    assert!(!mirrored.installation("terragrunt", "0.55.1").exists());

    let vendors = Vendors::are(&site);
    let mut machine = vendors.machine(&site);
    machine.set("BUTLER_LOG", "warn");
    expect![[r"
        exit 0
        <machine>/cache/terragrunt/0.55.1/terragrunt
        WARN published without a signature; verifying only its checksum request=terragrunt 0.55.1
    "]]
    .assert_eq(machine.run(&["tool", "--product", "terragrunt", "install", "0.55.1"]).normalized());
    let record = machine.installation("terragrunt", "0.55.1").join("install.json");
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    assert_eq!(record["signer"], "none, published without a signature");
    let listed = machine.run(&["tool", "list", "--json"]).expect_success().json();
    assert_eq!(
        (&listed[0]["trust"], &listed[0]["signedBy"]),
        (&"unsigned".into(), &serde_json::Value::Null)
    );
    let said = machine.run(&["tool", "--product", "terragrunt", "status"]).expect_success();
    assert!(said.stdout.contains("trusted by  published without a signature"), "{said:?}");
}

#[test]
fn errors_of_unsigned_releases_mention_the_missing_signature() {
    let script = terragrunt_stand_in("0.55.1");
    let site = ReleaseSite::start(&[("terragrunt-0.55.1", script.as_bytes())]);
    site.inject_fault("SHA256SUMS.gpgsig", Fault::Missing);
    let vendors = Vendors::are(&site);
    let mut machine = vendors.machine(&site);
    machine.set("BUTLER_LOG", "error");
    expect![[r"
        exit 1
        error: terragrunt 0.55.1 was published without a signature
        hint: a bundle contains only releases that can be verified again when they are installed; copy the file separately and install it with `butler-runner tool install terragrunt-0.55.1 --url file:///PATH --checksum sha256:HEX`
    "]].assert_eq(machine.run(&["tool", "bundle", "terragrunt-0.55.1"]).normalized());
    let file = format!("terragrunt_{}", butler_testing::release_site::platform());
    site.replace(&file, "another");
    let said = machine.run(&["tool", "--product", "terragrunt", "install", "0.55.1"]);
    assert!(
        said.stderr.contains("is not the archive that the vendor's checksum file names"),
        "{said:?}"
    );
}

#[test]
fn existing_signature_of_an_old_terragrunt_is_verified() {
    let script = terragrunt_stand_in("0.55.1");
    let site = ReleaseSite::start(&[("terragrunt-0.55.1", script.as_bytes())]);
    site.inject_fault("SHA256SUMS.gpgsig", Fault::ByAnother);
    let vendors = Vendors::are(&site);
    let machine = vendors.machine(&site);
    let said = machine.run(&["tool", "--product", "terragrunt", "install", "0.55.1"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains("the signature is by the unknown key"), "{said:?}");
    assert!(!machine.installation("terragrunt", "0.55.1").exists());
}

#[test]
fn signed_checksums_of_another_terragrunt_version_are_refused() {
    let script = terragrunt_stand_in("0.98.0");
    let site = ReleaseSite::start(&[("terragrunt-1.0.0", script.as_bytes())]);
    let mut machine = Machine::with_site(&site);
    machine.set("BUTLER_LOG", "error");
    machine.replace_in_output(butler_testing::release_site::platform(), "<platform>");
    expect![[r"
        exit 1
        error: `<site>/gruntwork-io/terragrunt/releases/download/v1.0.0/terragrunt_<platform>` is published as terragrunt 1.0.0 but contains terragrunt 0.98.0
        hint: do not use this download; check --url, and that the --mirror site and proxies do not modify files
    "]].assert_eq(machine.run(&["tool", "--product", "terragrunt", "install", "1.0.0"]).normalized());
    assert!(!machine.installation("terragrunt", "1.0.0").exists());
    let said = machine.run(&["tool", "bundle", "terragrunt-1.0.0"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.stderr.contains("is published as terragrunt 1.0.0 but contains terragrunt 0.98.0"),
        "{said:?}"
    );
    assert!(!machine.path("bundle.tar").exists());
}
