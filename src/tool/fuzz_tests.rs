//! What comes from a release site, before and after its signature was checked.

use std::collections::BTreeSet;
use std::io::{Cursor, Write};

use tokio_util::sync::CancellationToken;
use zip::write::SimpleFileOptions;

use crate::tool::digest::Sha256Sum;
use crate::tool::store::archive;
use crate::tool::vendor::checksums::Checksums;
use crate::tool::vendor::verify::TrustedCertificates;
use butler_base::error::Advice;
use butler_fuzz::Target;
use butler_protocol::spec::{Constraint, Product, RequestedVersion, VersionFile, VersionFileKind};

#[test]
fn fuzz_checksums_are_read_in_full_or_refused() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vectors");
    let samples = ["hashicorp/terraform_1.11.4_SHA256SUMS", "opentofu/tofu_1.6.0_SHA256SUMS"]
        .map(|file| std::fs::read(format!("{data}/{file}")).unwrap());
    let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
    let tokens: [&[u8]; 7] = [b"\n", b"\r\n", b"  ", b" *", b"../", b"\0", b"F"];
    let mut accepted = 0;
    Target { name: "checksums", samples: &samples, tokens: &tokens, rounds: 2000 }.run(
        |input, _| {
            let Ok(sums) = Checksums::parse(input) else { return };
            accepted += 1;
            let mut names = BTreeSet::new();
            for line in std::str::from_utf8(input).unwrap().lines() {
                let (sum, name) = (&line[..64], &line[66..]);
                assert!(names.insert(name), "{name} twice");
                assert!(!name.contains(['/', '\\', ' ']) && name.is_ascii(), "{name:?}");
                assert_eq!(sums.of(name).unwrap().to_string(), sum.to_ascii_lowercase());
            }
        },
    );
    assert!(accepted > 0, "no input was right");
}

#[test]
fn fuzz_signature_holds_over_the_signed_bytes_only() {
    let file = "/tests/data/vectors/hashicorp/terraform_1.11.4_SHA256SUMS";
    let path = format!("{}{file}", env!("CARGO_MANIFEST_DIR"));
    let signed = std::fs::read(&path).unwrap();
    let signature = std::fs::read(format!("{path}.sig")).unwrap();
    let trust = TrustedCertificates::new(Product::Terraform, &[]).unwrap();
    let tokens: [&[u8]; 2] = [b"\n", b"\0"];
    let (mut good, mut bad) = (0, 0);
    Target { name: "signature", samples: &[&signed], tokens: &tokens, rounds: 60 }.run(
        |input, _| {
            let same = input == signed;
            assert_eq!(trust.verify(input, &signature).is_ok(), same);
            if same { good += 1 } else { bad += 1 }
        },
    );
    assert!(good > 0 && bad > 0, "{good} {bad}");
}

#[test]
fn fuzz_archive_gives_one_file_of_bounded_size_or_none() {
    let make = |method, content: &str| {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(method);
        for name in ["LICENSE.txt", "terraform"] {
            writer.start_file(name, options).unwrap();
            writer.write_all(content.as_bytes()).unwrap();
        }
        writer.finish().unwrap().into_inner()
    };
    let samples = [
        make(zip::CompressionMethod::Stored, "binary"),
        make(zip::CompressionMethod::Deflated, &"binary ".repeat(500)),
        make(zip::CompressionMethod::Deflated, &"larger than it may be ".repeat(2000)),
    ];
    let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
    let tokens: [&[u8]; 8] = [
        b"PK\x01\x02",
        b"PK\x03\x04",
        b"PK\x05\x06",
        b"PK\x06\x06",
        b"PK\x06\x07",
        b"\xff\xff\xff\xff",
        b"terraform",
        b"../",
    ];
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    let mut accepted = 0;
    Target { name: "archive", samples: &samples, tokens: &tokens, rounds: 3000 }.run(|input, _| {
        let mut file = std::fs::File::create(&target).unwrap();
        let token = CancellationToken::new();
        let unpacked = archive::unpack_at_most(
            10_000,
            Cursor::new(input),
            "terraform",
            (&mut file, &target),
            &token,
        );
        let content = std::fs::read(&target).unwrap();
        assert!(content.len() <= 10_001, "{}", content.len());
        if let Ok(sum) = unpacked {
            accepted += 1;
            assert_eq!(sum, Sha256Sum::of(content.as_slice(), &token).unwrap());
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    });
    assert!(accepted > 0, "no input was right");
}

#[test]
fn fuzz_constraints_and_versions_are_read_or_refused() {
    let samples: [&[u8]; 5] =
        [b">= 1.5.0, < 2.0", b"~> 1.9.0-beta1", b"= v1", b"1.9.8\n", b"!= 1.0.0+build"];
    let tokens: [&[u8]; 11] = [
        b"latest:^",
        b"terraform ",
        b"~>",
        b">=",
        b",",
        b".",
        b"-",
        b"+",
        b"99999999999999999999",
        b"v",
        b" ",
    ];
    let versions =
        ["1.9.0", "0.0.0", "1.10.0-rc1", "18446744073709551615.0.0"].map(|it| it.parse().unwrap());
    let mut accepted = 0;
    Target { name: "constraints", samples: &samples, tokens: &tokens, rounds: 5000 }.run(
        |input, _| {
            let text = String::from_utf8_lossy(input);
            let _ = text.parse::<butler_protocol::spec::ToolRequest>();
            for (kind, product) in VersionFileKind::ALL.into_iter().zip(Product::ALL) {
                let file = VersionFile { kind, place: String::new(), text: text.to_string() };
                let _ = RequestedVersion::of_file(&file, product);
            }
            if let Err(error) = RequestedVersion::of_argument(&text, None) {
                assert!(error.advice().is_some());
            }
            let Ok(constraint) = text.parse::<Constraint>() else { return };
            accepted += 1;
            let again: Constraint = constraint.to_string().parse().unwrap();
            for version in &versions {
                assert_eq!(constraint.allows(version), again.allows(version), "{constraint}");
                let _ = constraint.suggests(version);
            }
        },
    );
    assert!(accepted > 0, "no input was right");
}
