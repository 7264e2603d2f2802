//! Caches that other users can modify, and releases with signatures over other content.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use butler_base::http::LazyClient;
use butler_runner::tool::{
    CacheError, ChecksumsError, InstalledTool, Origin, Sites, ToolError, ToolOptions, WhenBusy,
    ready,
};

use butler_testing::release_site::{Fault, ReleaseSite, archive};
use butler_testing::root::as_root_async;

fn options(site: &ReleaseSite, cache: &Path) -> ToolOptions {
    ToolOptions {
        cache: cache.to_owned(),
        sites: Sites::mirrored(Some(site.url())),
        signing_keys: vec![site.key_file()],
        search_path: None,
        http: LazyClient::new(None),
        meter: None,
        timeout: Duration::from_mins(10),
        when_busy: WhenBusy::Wait,
        owner: "a test".to_owned(),
    }
}

async fn install(options: &ToolOptions, version: &str) -> Result<InstalledTool, ToolError> {
    ready(&version.parse().unwrap(), options, &|_| {}).await
}

fn assert_unsafe(result: Result<InstalledTool, ToolError>, part: &Path, fault: &str) {
    let error = result.unwrap_err();
    let ToolError::Cache(CacheError::Unsafe { path, .. }) = &error else {
        panic!("{}: {error:?}", part.display())
    };
    assert_eq!(path, part);
    assert!(error.to_string().contains(fault), "{error}");
}

/// The parts that another user could replace, from the outermost to the innermost.
fn parts(cache: &Path) -> [PathBuf; 4] {
    let version = cache.join("terraform/1.9.8");
    let [record, executable] = ["install.json", "terraform"].map(|name| version.join(name));
    [cache.join("terraform"), version, record, executable]
}

#[tokio::test]
async fn cache_with_any_part_owned_by_another_user_is_refused() {
    Box::pin(as_root_async(async {
        let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("cache");
        let options = options(&site, &cache);
        install(&options, "1.9.8").await.unwrap();
        for part in [cache.clone()].into_iter().chain(parts(&cache)) {
            let owner = part.metadata().unwrap().uid();
            chown(&part, Some(12345), None).unwrap();
            assert_unsafe(install(&options, "1.9.8").await, &part, "belongs to another user");
            chown(&part, Some(owner), None).unwrap();
        }
        assert_eq!(install(&options, "1.9.8").await.unwrap().origin, Origin::Cache);
    }))
    .await;
}

#[tokio::test]
async fn cache_with_any_part_being_a_symbolic_link_is_refused() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    let options = options(&site, &cache);
    install(&options, "1.9.8").await.unwrap();
    let elsewhere = directory.path().join("elsewhere");
    for part in parts(&cache) {
        std::fs::rename(&part, &elsewhere).unwrap();
        symlink(&elsewhere, &part).unwrap();
        assert_unsafe(install(&options, "1.9.8").await, &part, "symbolic link");
        std::fs::remove_file(&part).unwrap();
        std::fs::rename(&elsewhere, &part).unwrap();
    }
    assert_eq!(install(&options, "1.9.8").await.unwrap().origin, Origin::Cache);
}

#[tokio::test]
async fn cache_directory_may_be_a_symbolic_link_of_the_same_user_only() {
    Box::pin(as_root_async(async {
        let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
        let directory = tempfile::tempdir().unwrap();
        let (real, link) = (directory.path().join("real"), directory.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        let options = options(&site, &link);
        assert_eq!(install(&options, "1.9.8").await.unwrap().origin, Origin::Downloaded);
        std::os::unix::fs::lchown(&link, Some(12345), None).unwrap();
        assert_unsafe(install(&options, "1.9.8").await, &link, "symbolic link of another user");
    }))
    .await;
}

#[tokio::test]
async fn executable_swapped_after_verification_is_never_returned() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    let options = options(&site, &cache);
    let path = install(&options, "1.9.8").await.unwrap().path;
    let swaps: [fn(&Path); 3] = [
        |path| {
            let beside = path.with_extension("evil");
            std::fs::write(&beside, b"BINARY").unwrap();
            std::fs::rename(beside, path).unwrap();
        },
        |path| {
            // The same size and time as before.
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            let time = file.metadata().unwrap().modified().unwrap();
            std::os::unix::fs::FileExt::write_at(&file, b"B", 0).unwrap();
            file.set_modified(time).unwrap();
        },
        |path| {
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
        },
    ];
    for swap in swaps {
        swap(&path);
        let tool = install(&options, "1.9.8").await.unwrap();
        assert_eq!(tool.origin, Origin::Downloaded);
        assert_eq!(std::fs::read(&tool.path).unwrap(), b"binary");
        assert_eq!(tool.path.metadata().unwrap().permissions().mode() & 0o7777, 0o755);
    }
}

#[tokio::test]
async fn valid_signature_over_another_version_is_refused() {
    let site = ReleaseSite::start(&[("1.5.7", b"old"), ("1.11.4", b"new")]);
    let directory = tempfile::tempdir().unwrap();
    let options = options(&site, &directory.path().join("cache"));
    // The checksum file and signatures of the older version, as a mirror could serve them.
    for (asked, given) in [
        ("terraform_1.11.4_SHA256SUMS", "terraform_1.5.7_SHA256SUMS"),
        ("terraform_1.11.4_SHA256SUMS.72D7468F.sig", "terraform_1.5.7_SHA256SUMS.72D7468F.sig"),
    ] {
        site.inject_fault(asked, Fault::InPlace(given));
    }
    let error = install(&options, "1.11.4").await.unwrap_err();
    assert!(matches!(error, ToolError::NotReleased { .. }), "{error:?}");

    // The older archive under the name of the newer one.
    site.remove_faults();
    let [asked, given] = ["1.11.4", "1.5.7"].map(|version| {
        format!("terraform_{version}_{}.zip", butler_testing::release_site::platform())
    });
    site.inject_fault(&asked, Fault::InPlace(Box::leak(given.into_boxed_str())));
    let error = install(&options, "1.11.4").await.unwrap_err();
    assert!(matches!(error, ToolError::Checksum { .. }), "{error:?}");
}

#[tokio::test]
async fn signed_archive_extracts_only_a_regular_executable() {
    let good = archive(&[("terraform", b"binary")]);
    let renamed = |from: &str, to: &str, mut bytes: Vec<u8>| {
        assert_eq!(from.len(), to.len());
        for place in 0..bytes.len() - from.len() {
            if bytes[place..].starts_with(from.as_bytes()) {
                bytes[place..place + to.len()].copy_from_slice(to.as_bytes());
            }
        }
        bytes
    };
    let mut encrypted = good.clone();
    // Bit 0 of the flags in the local header and in the central directory.
    encrypted[6] |= 1;
    let central = encrypted.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    encrypted[central + 8] |= 1;
    let two = archive(&[("terraforX", b"second"), ("terraform", b"binary")]);
    for (what, bytes) in [
        ("two of one name", renamed("terraforX", "terraform", two)),
        ("absolute", renamed("XX/terraform", "/x/terraform", archive(&[("XX/terraform", b"x")]))),
        ("of a parent", archive(&[("../terraform", b"x")])),
        ("encrypted", encrypted),
        ("cut off", good[..good.len() - 10].to_vec()),
    ] {
        let site = ReleaseSite::start_with_archives(vec![("1.9.8", bytes)]);
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("cache");
        let error = install(&options(&site, &cache), "1.9.8").await.unwrap_err();
        assert!(matches!(error, ToolError::Archive(_)), "{what}: {error:?}");
        assert!(!cache.join("terraform/1.9.8").exists(), "{what}");
    }
}

#[tokio::test]
async fn signed_but_ambiguous_checksum_file_is_refused() {
    let line = format!("{}  terraform_1.9.8_x.zip\n", "0".repeat(64));
    for (text, twice) in [(format!("{line}{line}"), true), (line.replace('\n', "\r\n"), false)] {
        let site = ReleaseSite::start_with_checksums("1.9.8", &text);
        let directory = tempfile::tempdir().unwrap();
        let error =
            install(&options(&site, &directory.path().join("cache")), "1.9.8").await.unwrap_err();
        let ToolError::Checksums(error) = error else { panic!("{error:?}") };
        assert_eq!(matches!(error, ChecksumsError::Twice { .. }), twice, "{error:?}");
    }
    // A real checksum file has 4 kB; an endless one is rejected before it is read.
    let site = ReleaseSite::start_with_checksums("1.9.8", &line.repeat(20_000));
    let directory = tempfile::tempdir().unwrap();
    let error = install(&options(&site, &directory.path().join("cache")), "1.9.8").await;
    assert!(matches!(error, Err(ToolError::Download(_))), "{error:?}");
}
