//! Directories and tar archives as mirrors, and archives that the user names with checksums.

use super::*;

#[test]
fn directory_and_its_tar_archive_work_as_mirror_and_as_url() {
    let site = site();
    let machine = Machine::new();
    site.write_to(&machine.path("media/bundle"));
    let mut tar = tar::Builder::new(std::fs::File::create(machine.path("media/b.tar")).unwrap());
    tar.append_dir_all(".", machine.path("media/bundle")).unwrap();
    tar.into_inner().unwrap();
    let media = url::Url::from_file_path(machine.path("media")).unwrap();
    for place in ["bundle", "bundle/", "b.tar"] {
        let url = format!("{media}/{place}");
        for flag in ["--mirror", "--url"] {
            let mut machine = Machine::new();
            machine.set("BUTLER_SIGNING_KEY", site.key_file());
            installed(machine.run(&[&INSTALL[..], &[flag, &url]].concat()), &machine);
            // Keys in the mirror directory are not trusted.
            let machine = Machine::new();
            let said = machine.run(&[&INSTALL[..], &[flag, &url]].concat());
            assert!(said.stderr.contains("unknown key"), "{said:?}");
        }
    }
    assert!(site.requests().is_empty());
}

#[test]
fn missing_version_in_a_mirror_directory_is_named() {
    let site = site();
    let mut machine = Machine::new();
    machine.set("BUTLER_LOG", "error");
    site.write_to(&machine.path("media"));
    let url = url::Url::from_file_path(machine.path("media")).unwrap();
    let said = machine.run(&["tool", "install", "1.9.9", "--mirror", url.as_str()]);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: terraform 1.9.9 was not found at `file://<machine>/media/terraform/1.9.9/terraform_1.9.9_SHA256SUMS`: `file://<machine>/media/terraform/1.9.9/terraform_1.9.9_SHA256SUMS` does not exist
        hint: check that version 1.9.9 exists, and that --mirror has it
    "]],
        &machine,
    );
}

/// A server with only the archive, under its own name.
fn bare_archive(place: &Path, executable: &str) -> (url::Url, String) {
    use sha2::Digest;
    let archive = archive(&[("terraform", executable.as_bytes())]);
    let path = place.join("ours.zip");
    std::fs::write(&path, &archive).unwrap();
    let sum = format!("sha256:{}", hex::encode(sha2::Sha256::digest(&archive)));
    (url::Url::from_file_path(path).unwrap(), sum)
}

#[test]
fn url_with_a_checksum_needs_no_signature_and_is_recorded_as_such() {
    let machine = Machine::new();
    let (url, sum) = bare_archive(&machine.path("tmp"), &stand_in("1.9.8"));
    let words = [&INSTALL[..], &["--url", url.as_str(), "--checksum", &sum]].concat();
    let said = machine.run(&words).expect_success();
    assert_eq!(std::fs::read_to_string(said.printed_path()).unwrap(), stand_in("1.9.8"));
    let record = record(&machine, "1.9.8");
    assert_eq!(record["signer"], "none, checksum given by the user");
    assert_eq!(record["archiveUrl"], url.as_str());
    assert_eq!(format!("sha256:{}", record["archiveSha256"].as_str().unwrap()), sum);
    // The version is installed now. Another checksum must not select it.
    machine.run(&words).expect_success();
    let other = format!("sha256:{}", "0".repeat(64));
    let said = machine.run(&[&INSTALL[..], &["--checksum", &other]].concat());
    assert!(said.stderr.contains("is installed from another archive"), "{said:?}");
    assert_eq!(said.code, Some(1));
}

#[test]
fn archive_of_another_version_is_refused_even_if_its_checksum_matches() {
    let mut machine = Machine::new();
    machine.set("BUTLER_LOG", "error");
    let (url, sum) = bare_archive(&machine.path("tmp"), &stand_in("1.5.7"));
    let words = [&INSTALL[..], &["--url", url.as_str(), "--checksum", &sum]].concat();
    refused(
        &machine.run(&words),
        &expect![[r"
        exit 1
        error: `file://<machine>/tmp/ours.zip` is published as terraform 1.9.8 but contains version 1.5.7
        hint: do not use this download; check --url, and that the --mirror site and proxies do not modify files
    "]],
        &machine,
    );
}

#[test]
fn url_without_a_checksum_needs_a_signed_checksum_file_beside_it() {
    let mut machine = Machine::new();
    machine.set("BUTLER_LOG", "error");
    let (url, _) = bare_archive(&machine.path("tmp"), "binary");
    let words = [&INSTALL[..], &["--url", url.as_str()]].concat();
    let said = machine.run(&words);
    refused(
        &said,
        &expect![[r"
        exit 1
        error: cannot find a checksum file next to the archive of terraform 1.9.8: `file://<machine>/tmp/terraform_1.9.8_SHA256SUMS` does not exist
        hint: give the archive's sum with --checksum sha256:HEX, or put the vendor's checksum file and its signature beside it
    "]],
        &machine,
    );

    let site = site();
    machine.set("BUTLER_SIGNING_KEY", site.key_file());
    for name in ["_SHA256SUMS", "_SHA256SUMS.sig"] {
        let (path, content) = site.file(name);
        let name = path.rsplit('/').next().unwrap();
        std::fs::write(machine.path("tmp").join(name), content).unwrap();
    }
    // The signature covers the archive of the site, and ours has other content.
    let said = machine.run(&words);
    assert!(said.stderr.contains("is not the archive that was signed"), "{said:?}");
    std::fs::write(machine.path("tmp/ours.zip"), site.file(".zip").1).unwrap();
    installed(machine.run(&words), &machine);
    assert!(record(&machine, "1.9.8")["signer"].as_str().unwrap().len() == 40);
}

#[test]
fn checksum_without_a_url_is_verified_in_addition_to_the_signature() {
    use sha2::Digest;
    let site = site();
    let sum = hex::encode(sha2::Sha256::digest(site.file(".zip").1));
    let mut machine = quiet(&site);
    machine.replace_in_output(sum.clone(), "<signed>");
    let with = |sum: &str| {
        let sum = format!("sha256:{sum}");
        machine.run(&[&INSTALL[..], &["--checksum", &sum]].concat())
    };
    let said = with(&"0".repeat(64));
    refused(
        &said,
        &expect![[r"
        exit 1
        error: `<site>/terraform/1.9.8/terraform_1.9.8_<platform>.zip` is not the archive that was asked for with --checksum: its SHA-256 is <signed>, not 0000000000000000000000000000000000000000000000000000000000000000
        hint: do not use this download; check the URL and the checksum, which must be that of the archive, not of the executable inside it
    "]],
        &machine,
    );
    assert!(site.seen(".zip").is_empty(), "what was signed is known before");
    site.inject_fault("SHA256SUMS.72D7468F.sig", Fault::ByAnother);
    assert!(with(&sum).stderr.contains("unknown key"));
    site.remove_faults();
    installed(with(&sum), &machine);
}

#[test]
fn malformed_url_or_checksum_is_a_usage_error_without_the_value() {
    let machine = Machine::new();
    for words in [
        ["--url", "hunter2"],
        ["--url", "ftp://user:hunter2@mirror.example/a.zip"],
        ["--url", "file://hunter2/a.zip"],
        ["--url", "https://user:hunter2@mirror.example/a.zip#sha256"],
        ["--checksum", "hunter2"],
        ["--checksum", "sha256:hunter2"],
    ] {
        let said = machine.run(&[&INSTALL[..], &words].concat());
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains(words[0]), "{said:?}");
        assert!(!said.stderr.contains("user:hunter2"), "{said:?}");
    }
}
