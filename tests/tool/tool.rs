//! Installing a tool: PATH, cache, download and verification, with a site on loopback.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use butler_base::error::Advice;
use butler_protocol::spec::{
    RequestedVersion, RequiredVersions, ToolRequest, VersionFile, VersionFileKind,
};
use butler_runner::tool::{
    CacheError, DownloadError, InstalledTool, Origin, Reach, Sites, ToolError, ToolOptions,
    VerifyError, VersionSources, WhenBusy, choose, ready,
};
use futures_util::FutureExt;

use butler_testing::release_site::{Fault, ReleaseSite, archive, executable, platform, stand_in};

/// A cache and a PATH for one test, and the options that name them.
struct ToolHome {
    directory: tempfile::TempDir,
    options: ToolOptions,
}

impl ToolHome {
    fn new(site: &ReleaseSite) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = ToolOptions {
            cache: directory.path().join("cache"),
            sites: Sites::mirrored(Some(site.url())),
            signing_keys: vec![site.key_file()],
            search_path: None,
            http: butler_base::http::LazyClient::new(None),
            meter: None,
            timeout: Duration::from_mins(10),
            when_busy: WhenBusy::Wait,
            owner: "a test".to_owned(),
        };
        Self { directory, options }
    }

    /// Installs a stand-in in a new directory at the end of PATH.
    fn on_path(&mut self, name: &str, version: &str) -> PathBuf {
        let mut directories: Vec<_> =
            self.options.search_path.iter().flat_map(std::env::split_paths).collect();
        let directory = self.directory.path().join(format!("bin{}", directories.len()));
        executable(&directory.join(name), stand_in(version));
        directories.push(directory.clone());
        self.options.search_path = Some(std::env::join_paths(directories).unwrap());
        directory.join(name)
    }

    async fn ready(&self, version: &str) -> Result<InstalledTool, ToolError> {
        ready(&version.parse().unwrap(), &self.options, &|_| {}).await
    }

    async fn choose(&self, wish: &VersionSources) -> Result<String, ToolError> {
        choose(wish, Reach::InstalledFirst, &self.options).await.map(|request| request.to_string())
    }

    /// The directory of `version` of Terraform.
    fn installation(&self, version: &str) -> PathBuf {
        self.options.cache.join("terraform").join(version)
    }

    /// All names in the directory of Terraform, except metadata.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.options.cache.join("terraform")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != "history.json" && !name.contains(".users"));
        names.sort();
        names
    }
}

fn version_file(name: &str, text: &str) -> VersionFile {
    let kind = VersionFileKind::ALL.into_iter().find(|kind| kind.name() == name).unwrap();
    VersionFile { kind, place: name.to_owned(), text: text.to_owned() }
}

fn zip_of(version: &str) -> String {
    format!("terraform_{version}_{}.zip", platform())
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

/// The machine's own Terraform and its version.
fn real_terraform() -> (Vec<u8>, String) {
    #[expect(clippy::disallowed_methods, reason = "the machine's own Terraform is on its PATH")]
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::split_paths(&path)
        .map(|directory| directory.join("terraform"))
        .find(|path| path.is_file())
        .expect("terraform has to be on PATH");
    (std::fs::read(&path).unwrap(), version_of(&path))
}

fn version_of(path: &Path) -> String {
    let output = std::process::Command::new(path)
        .args(["version", "-json"])
        .env("CHECKPOINT_DISABLE", "1")
        .output()
        .unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["terraform_version"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn real_terraform_is_installed_from_a_signed_site() {
    let (binary, version) = real_terraform();
    let site = ReleaseSite::start(&[(&version, &binary)]);
    let home = ToolHome::new(&site);

    let tool = home.ready(&version).await.unwrap();
    assert_eq!(tool.origin, Origin::Downloaded);
    assert_eq!(tool.path, home.installation(&version).join("terraform"));
    assert_eq!(version_of(&tool.path), version);
    let base = format!("/terraform/{version}/terraform_{version}");
    let expected = [
        "_SHA256SUMS".to_owned(),
        "_SHA256SUMS.72D7468F.sig".to_owned(),
        format!("_{}.zip", platform()),
    ];
    assert_eq!(site.requests(), expected.map(|name| format!("{base}{name}")));

    let again = home.ready(&version).await.unwrap();
    assert_eq!((again.origin, again.path), (Origin::Cache, tool.path));
    assert_eq!(site.requests().len(), 3);
}

#[tokio::test]
async fn installation_is_private_except_for_the_executable_and_leaves_no_temporary_files() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let home = ToolHome::new(&site);
    let tool = home.ready("1.9.8").await.unwrap();
    assert_eq!(std::fs::read(&tool.path).unwrap(), b"binary");
    assert_eq!(mode(&tool.path), 0o755);
    for directory in
        [&home.options.cache, &home.options.cache.join("terraform"), &home.installation("1.9.8")]
    {
        assert_eq!(mode(directory), 0o700, "{}", directory.display());
    }
    assert_eq!(home.names(), [".1.9.8.lock", "1.9.8"]);
    let record = std::fs::read(home.installation("1.9.8").join("install.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    assert_eq!(record["archiveUrl"], format!("{}terraform/1.9.8/{}", site.url(), zip_of("1.9.8")));
}

#[tokio::test]
async fn opentofu_is_installed_from_its_own_site_layout() {
    let site = ReleaseSite::start(&[("opentofu-1.8.5", b"tofu")]);
    let home = ToolHome::new(&site);
    let tool = home.ready("opentofu-1.8.5").await.unwrap();
    assert_eq!(tool.path, home.options.cache.join("opentofu/1.8.5/tofu"));
    assert!(site.requests()[1].ends_with("/v1.8.5/tofu_1.8.5_SHA256SUMS.gpgsig"));
}

#[tokio::test]
async fn exact_version_is_found_anywhere_on_path() {
    let site = ReleaseSite::start(&[]);
    let mut home = ToolHome::new(&site);
    home.on_path("terraform", "1.9.7");
    let wanted = home.on_path("terraform", "1.9.8");
    let tool = home.ready("1.9.8").await.unwrap();
    // A script may start another version in another directory.
    assert_eq!((tool.origin, tool.path), (Origin::Shim, wanted));
    assert!(site.requests().is_empty());
}

#[tokio::test]
async fn another_version_on_path_is_never_used() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let mut home = ToolHome::new(&site);
    home.on_path("terraform", "1.9.7");
    assert_eq!(home.ready("1.9.8").await.unwrap().origin, Origin::Downloaded);
}

#[tokio::test]
async fn concurrent_runs_download_a_version_once() {
    let site = ReleaseSite::start(&[("1.9.8", &b"binary".repeat(100_000))]);
    let home = ToolHome::new(&site);
    // Boxed as `Send`, so that callers can spawn it.
    let runs = (0..8).map(|_| home.ready("1.9.8").boxed());
    let tools = futures_util::future::join_all(runs).await;
    let mut origins: Vec<_> = tools.into_iter().map(|tool| tool.unwrap().origin).collect();
    origins.retain(|origin| *origin == Origin::Downloaded);
    assert_eq!(origins.len(), 1);
    let archives = site.requests().iter().filter(|path| path.ends_with(&zip_of("1.9.8"))).count();
    assert_eq!(archives, 1);
}

#[tokio::test]
async fn run_that_waits_for_another_installation_logs_it() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    site.inject_fault(".zip", Fault::Hanging);
    let home = ToolHome::new(&site);
    let request: ToolRequest = "1.9.8".parse().unwrap();
    let (said, waiting) = tokio::sync::mpsc::unbounded_channel();
    let first = home.ready("1.9.8");
    let progress = |line: &str| said.send(line.to_owned()).unwrap();
    let second = async {
        site.wait_for_request(".zip").await;
        ready(&request, &home.options, &progress).await
    };
    tokio::pin!(second);
    let mut waiting = waiting;
    tokio::select! {
        _ = first => panic!("the site hangs"),
        _ = &mut second => panic!("the first one has the lock"),
        line = waiting.recv() => {
            let line = line.unwrap();
            assert!(line.contains("(a test), which has been installing terraform 1.9.8 since"), "{line}");
        },
    }
    // The first installation is cancelled with its future: the second continues.
    site.remove_faults();
    assert_eq!(second.await.unwrap().origin, Origin::Downloaded);
}

#[tokio::test]
async fn cancelled_download_is_never_used_as_installed() {
    let site = ReleaseSite::start(&[("1.9.8", &b"binary".repeat(10_000))]);
    site.inject_fault(".zip", Fault::Hanging);
    let home = ToolHome::new(&site);
    tokio::select! {
        _ = home.ready("1.9.8") => panic!("the site hangs"),
        () = site.wait_for_request(".zip") => {}
    }
    assert_eq!(home.names(), [".1.9.8.lock"]);
    site.remove_faults();
    assert_eq!(home.ready("1.9.8").await.unwrap().origin, Origin::Downloaded);
}

#[tokio::test]
async fn missing_version_is_named_with_the_site() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let home = ToolHome::new(&site);
    let error = home.ready("9.9.9").await.unwrap_err();
    assert!(matches!(error, ToolError::UnknownVersion { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("terraform 9.9.9 was not found at `http://127.0.0.1:"), "{text}");
    assert!(error.advice().unwrap().contains("9.9.9"));
    assert_eq!(site.requests().len(), 1);
}

#[tokio::test]
async fn unsigned_checksums_install_nothing() {
    for (file, fault) in [
        ("_SHA256SUMS", Fault::Changed),
        ("_SHA256SUMS", Fault::Halved),
        (".72D7468F.sig", Fault::ByAnother),
        (".72D7468F.sig", Fault::Changed),
        (".72D7468F.sig", Fault::Halved),
    ] {
        let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
        site.inject_fault(file, fault);
        let home = ToolHome::new(&site);
        let error = home.ready("1.9.8").await.unwrap_err();
        let ToolError::Signature { source, .. } = &error else { panic!("{error:?}") };
        let by_another = matches!(fault, Fault::ByAnother);
        assert_eq!(matches!(source, VerifyError::UnknownSigner { .. }), by_another, "{source:?}");
        assert!(!site.requests().iter().any(|path| path.ends_with(&zip_of("1.9.8"))));
        assert!(!home.installation("1.9.8").exists());
    }
}

#[tokio::test]
async fn signing_key_of_the_site_must_be_trusted_by_the_user() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let mut home = ToolHome::new(&site);
    home.options.signing_keys.clear();
    let error = home.ready("1.9.8").await.unwrap_err();
    assert!(error.advice().unwrap().contains("--signing-key"), "{error:?}");
    assert!(!home.installation("1.9.8").exists());
}

#[tokio::test]
async fn missing_signature_is_an_error() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    site.inject_fault(".72D7468F.sig", Fault::Missing);
    let home = ToolHome::new(&site);
    // The other name of the signature is accepted as well.
    assert_eq!(home.ready("1.9.8").await.unwrap().origin, Origin::Downloaded);

    site.inject_fault("_SHA256SUMS.sig", Fault::Missing);
    let home = ToolHome::new(&site);
    let error = home.ready("1.9.8").await.unwrap_err();
    assert!(matches!(error, ToolError::Unsigned { .. }), "{error:?}");
}

#[tokio::test]
async fn archive_that_was_not_signed_is_refused() {
    for fault in [Fault::Changed, Fault::Halved] {
        let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
        site.inject_fault(".zip", fault);
        let home = ToolHome::new(&site);
        let error = home.ready("1.9.8").await.unwrap_err();
        assert!(matches!(error, ToolError::Checksum { .. }), "{error:?}");
        assert_eq!(home.names(), [".1.9.8.lock"]);
    }
}

#[tokio::test]
async fn archive_without_the_executable_is_refused_even_if_signed() {
    let other = archive(&[("../terraform", b"outside"), ("tofu", b"other")]);
    let site = ReleaseSite::start_with_archives(vec![("1.9.8", other)]);
    let home = ToolHome::new(&site);
    let error = home.ready("1.9.8").await.unwrap_err();
    assert!(matches!(error, ToolError::Archive(_)), "{error:?}");
    assert_eq!(home.names(), [".1.9.8.lock"]);
    assert!(!home.options.cache.join("terraform/terraform").exists());
}

#[tokio::test]
async fn version_without_an_archive_for_this_platform_is_named() {
    // For example, the checksum file of another version under the name of this one.
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let home = ToolHome::new(&site);
    let proxy = axum::Router::new().fallback({
        let site = site.url();
        move |uri: axum::http::Uri| async move {
            let old = uri.path().replace("1.9.9", "1.9.8");
            axum::response::Redirect::temporary(site.join(&old).unwrap().as_str())
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = async { axum::serve(listener, proxy).await.unwrap() };
    let mut options = home.options.clone();
    options.sites = Sites::mirrored(Some(format!("http://{address}").parse().unwrap()));
    let request = "1.9.9".parse().unwrap();
    let error = tokio::select! {
        result = ready(&request, &options, &|_| {}) => result.unwrap_err(),
        () = server => unreachable!("the server does not end"),
    };
    assert!(matches!(error, ToolError::NotReleased { .. }), "{error:?}");
}

#[tokio::test]
async fn interrupted_download_is_retried() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    site.inject_fault("_SHA256SUMS", Fault::Failing(2));
    site.inject_fault(".zip", Fault::Breaking(1));
    let home = ToolHome::new(&site);
    assert_eq!(home.ready("1.9.8").await.unwrap().origin, Origin::Downloaded);
    let asked = |name: &str| site.requests().iter().filter(|path| path.ends_with(name)).count();
    assert_eq!((asked("_SHA256SUMS"), asked(".zip")), (3, 2));
}

#[tokio::test]
async fn permanently_failing_site_is_an_error() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    site.inject_fault("_SHA256SUMS", Fault::Failing(usize::MAX));
    let error = ToolHome::new(&site).ready("1.9.8").await.unwrap_err();
    assert!(matches!(error, ToolError::Download(DownloadError::Status { .. })), "{error:?}");
}

#[tokio::test]
async fn modified_executable_is_downloaded_again() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let home = ToolHome::new(&site);
    let path = home.ready("1.9.8").await.unwrap().path;
    std::fs::write(&path, b"BINARY").unwrap();
    let tool = home.ready("1.9.8").await.unwrap();
    assert_eq!(tool.origin, Origin::Downloaded);
    assert_eq!(std::fs::read(&path).unwrap(), b"binary");
    assert_eq!(home.names(), [".1.9.8.lock", "1.9.8"]);

    // If it cannot be downloaded again, the tool is missing.
    std::fs::write(&path, b"BINARY").unwrap();
    site.inject_fault("_SHA256SUMS", Fault::Missing);
    home.ready("1.9.8").await.unwrap_err();
}

#[tokio::test]
async fn executable_with_a_new_timestamp_is_verified_and_used() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let home = ToolHome::new(&site);
    let path = home.ready("1.9.8").await.unwrap().path;
    let record = home.installation("1.9.8").join("install.json");
    let before = std::fs::read(&record).unwrap();
    let copy = path.with_extension("copy");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::rename(&copy, &path).unwrap();
    assert_eq!(home.ready("1.9.8").await.unwrap().origin, Origin::Cache);
    assert_ne!(std::fs::read(&record).unwrap(), before, "the new look is recorded");
    assert_eq!(site.requests().len(), 3);
}

#[tokio::test]
async fn incomplete_installation_is_not_used() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let home = ToolHome::new(&site);
    let path = home.ready("1.9.8").await.unwrap().path;
    for broken in [path, home.installation("1.9.8").join("install.json")] {
        std::fs::remove_file(broken).unwrap();
        assert_eq!(home.ready("1.9.8").await.unwrap().origin, Origin::Downloaded);
    }
    // The next installation removes the leftovers of a killed run.
    let left = home.options.cache.join("terraform/.partial-1.9.8~abc");
    executable(&left.join("terraform"), b"half");
    std::fs::remove_dir_all(home.installation("1.9.8")).unwrap();
    home.ready("1.9.8").await.unwrap();
    assert_eq!(home.names(), [".1.9.8.lock", "1.9.8"]);
}

#[tokio::test]
async fn cache_writable_by_others_is_refused() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let home = ToolHome::new(&site);
    let path = home.ready("1.9.8").await.unwrap().path;
    for open in [home.options.cache.join("terraform"), home.installation("1.9.8"), path] {
        let permissions = open.metadata().unwrap().permissions();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = home.ready("1.9.8").await.unwrap_err();
        assert!(matches!(error, ToolError::Cache(CacheError::Unsafe { .. })), "{error:?}");
        assert!(error.to_string().contains(open.to_str().unwrap()));
        assert!(error.advice().unwrap().contains("--cache-dir"));
        std::fs::set_permissions(&open, permissions).unwrap();
    }
    assert_eq!(home.ready("1.9.8").await.unwrap().origin, Origin::Cache);
}

#[tokio::test]
async fn cache_below_a_sticky_world_writable_directory_is_used() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let home = ToolHome::new(&site);
    std::fs::create_dir(&home.options.cache).unwrap();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&home.options.cache, open).unwrap();
    assert_eq!(home.ready("1.9.8").await.unwrap().origin, Origin::Downloaded);
    assert_eq!(home.ready("1.9.8").await.unwrap().origin, Origin::Cache);
}

#[tokio::test]
async fn credentials_of_the_mirror_are_sent_and_masked() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let mut home = ToolHome::new(&site);
    let mut mirror = site.url();
    mirror.set_username("user").unwrap();
    mirror.set_password(Some("hunter2")).unwrap();
    home.options.sites = Sites::mirrored(Some(mirror));
    home.ready("1.9.8").await.unwrap();
    let record = std::fs::read_to_string(home.installation("1.9.8").join("install.json")).unwrap();
    let error = home.ready("9.9.9").await.unwrap_err();
    let shown = format!("{record}{error:?}{}{:?}", butler_base::error::chain(&error), home.options);
    assert!(shown.contains("127.0.0.1") && !shown.contains("hunter2"), "{shown}");
    assert!(site.authorized());
}

#[tokio::test]
async fn missing_key_file_is_reported_before_any_request() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let mut home = ToolHome::new(&site);
    home.options.signing_keys.push("/does/not/exist.asc".into());
    let error = home.ready("1.9.8").await.unwrap_err();
    assert!(error.to_string().contains("/does/not/exist.asc"), "{error}");
    assert!(site.requests().is_empty());
}

#[tokio::test]
async fn version_of_the_run_overrides_all_others() {
    let site = ReleaseSite::start(&[]);
    let mut home = ToolHome::new(&site);
    let mut wish = VersionSources {
        named: Some(RequestedVersion::of_argument("1.9.8", None).unwrap()),
        required: RequiredVersions::in_terraform_file(&[">= 1.5, < 1.8"]),
        version_files: vec![version_file(".terraform-version", "1.7.5\n")],
        default: Some("1.6.6".parse().unwrap()),
        ..VersionSources::default()
    };
    assert_eq!(home.choose(&wish).await.unwrap(), "terraform 1.9.8");
    wish.named = None;
    assert_eq!(home.choose(&wish).await.unwrap(), "terraform 1.7.5");
    wish.version_files.clear();
    assert_eq!(home.choose(&wish).await.unwrap(), "terraform 1.6.6");
    wish.required = RequiredVersions::default();
    home.on_path("terraform", "1.5.7");
    assert_eq!(home.choose(&wish).await.unwrap(), "terraform 1.6.6");
    wish.default = None;
    assert_eq!(home.choose(&wish).await.unwrap(), "terraform 1.5.7");
    assert!(site.requests().is_empty());
}

#[tokio::test]
async fn required_version_prefers_installed_versions() {
    let site = ReleaseSite::start(&[
        ("1.5.7", b"binary"),
        ("1.7.5", b"binary"),
        ("1.8.5", b"binary"),
        ("1.9.0-rc1", b"binary"),
    ]);
    let mut home = ToolHome::new(&site);
    let wish = VersionSources {
        required: RequiredVersions::in_terraform_file(&[">= 1.5", "< 2.0"]),
        default: Some("1.3.10".parse().unwrap()),
        ..VersionSources::default()
    };
    assert_eq!(home.choose(&wish).await.unwrap(), "terraform 1.8.5");
    home.ready("1.5.7").await.unwrap();
    home.ready("1.7.5").await.unwrap();
    assert_eq!(home.choose(&wish).await.unwrap(), "terraform 1.7.5");
    home.on_path("terraform", "1.2.9");
    home.on_path("terraform", "1.6.6");
    assert_eq!(home.choose(&wish).await.unwrap(), "terraform 1.6.6");
}

#[tokio::test]
async fn contradicting_and_malformed_constraints_are_named() {
    let site = ReleaseSite::start(&[("1.8.5", b"binary")]);
    let home = ToolHome::new(&site);
    let required = |text: &str| VersionSources {
        required: RequiredVersions::in_terraform_file(&[text]),
        ..VersionSources::default()
    };
    let error = home.choose(&required(">= 2.0, < 1.0")).await.unwrap_err();
    assert!(error.to_string().contains("`>= 2.0, < 1.0`"), "{error}");
    let error = home.choose(&required("newest")).await.unwrap_err();
    assert!(butler_base::error::chain(&error).contains("`newest`"), "{error}");
    let error = home.choose(&VersionSources::default()).await.unwrap_err();
    assert!(matches!(error, ToolError::NoVersion), "{error}");
    assert!(error.advice().unwrap().contains("--default-tool-version"));
}

#[tokio::test]
async fn version_file_may_contain_a_version_a_constraint_or_latest() {
    let site = ReleaseSite::start(&[
        ("1.8.5", b"binary"),
        ("1.9.8", b"binary"),
        ("opentofu-1.7.1", b"binary"),
    ]);
    let home = ToolHome::new(&site);
    for (name, content, chosen) in [
        (".terraform-version", "# ours\nv1.7.5 # pinned\n", "terraform 1.7.5"),
        (".terraform-version", "latest\n", "terraform 1.9.8"),
        (".terraform-version", "~> 1.8.0", "terraform 1.8.5"),
        (".terraform-version", "opentofu-1.6.0", "opentofu 1.6.0"),
        (".opentofu-version", "1.8.3\r\n", "opentofu 1.8.3"),
        (".opentofu-version", "latest", "opentofu 1.7.1"),
        (".terraform-version", "terraform \"1.7.5\"", "terraform 1.7.5"),
        (".terraform-version", "latest-stable", "terraform 1.9.8"),
    ] {
        let version_files = vec![version_file(name, content)];
        let wish = VersionSources { version_files, ..VersionSources::default() };
        assert_eq!(home.choose(&wish).await.unwrap(), chosen, "{content}");
    }
    for content in ["newest", "min-required", "latest:[1-9]"] {
        let version_files = vec![version_file(".terraform-version", content)];
        let wish = VersionSources { version_files, ..VersionSources::default() };
        let error = home.choose(&wish).await.unwrap_err();
        assert!(error.to_string().contains("`.terraform-version`"), "{error}");
    }
}

#[tokio::test]
async fn tofu_is_chosen_if_it_is_the_only_tool_on_path() {
    let site = ReleaseSite::start(&[]);
    let mut home = ToolHome::new(&site);
    home.on_path("tofu", "1.8.5");
    assert_eq!(home.choose(&VersionSources::default()).await.unwrap(), "opentofu 1.8.5");
    let required = VersionSources {
        required: RequiredVersions::in_terraform_file(&[">= 1.8"]),
        ..VersionSources::default()
    };
    assert_eq!(home.choose(&required).await.unwrap(), "opentofu 1.8.5");
}

#[tokio::test]
async fn module_of_tofu_files_is_executed_by_opentofu() {
    let site = ReleaseSite::start(&[
        ("1.9.8", b"binary"),
        ("opentofu-1.7.1", b"binary"),
        ("opentofu-1.9.0", b"binary"),
    ]);
    let mut home = ToolHome::new(&site);
    let required = RequiredVersions { needs_tofu: true, ..RequiredVersions::default() };
    let mut wish = VersionSources { required, ..VersionSources::default() };
    home.on_path("terraform", "1.11.4");
    assert_eq!(home.choose(&wish).await.unwrap(), "opentofu 1.9.0");
    wish.default = Some("1.9.8".parse().unwrap());
    assert_eq!(home.choose(&wish).await.unwrap(), "opentofu 1.9.0", "Terraform cannot read it");
    home.on_path("tofu", "1.7.1");
    assert_eq!(home.choose(&wish).await.unwrap(), "opentofu 1.9.0", "1.7.1 cannot read it");
    wish.default = Some("opentofu-1.8.3".parse().unwrap());
    assert_eq!(home.choose(&wish).await.unwrap(), "opentofu 1.8.3");
    // A version that is named counts, and the run says that it does not read the module.
    wish.version_files = vec![version_file(".tool-versions", "terraform 1.9.8\nopentofu 1.8.5\n")];
    assert_eq!(home.choose(&wish).await.unwrap(), "opentofu 1.8.5");
    wish.version_files = vec![version_file(".terraform-version", "1.9.8\n")];
    assert_eq!(home.choose(&wish).await.unwrap(), "terraform 1.9.8");
}

#[tokio::test]
async fn prerelease_on_path_satisfies_a_constraint_by_its_core() {
    let site = ReleaseSite::start(&[("1.11.4", b"binary")]);
    let mut home = ToolHome::new(&site);
    home.on_path("terraform", "1.12.0-beta1");
    for (constraint, chosen) in [
        (">= 1.11", "terraform 1.12.0-beta1"),
        ("~> 1.12.0", "terraform 1.12.0-beta1"),
        ("< 1.12", "terraform 1.11.4"),
    ] {
        let required = RequiredVersions::in_terraform_file(&[constraint]);
        let wish = VersionSources { required, ..VersionSources::default() };
        assert_eq!(home.choose(&wish).await.unwrap(), chosen, "{constraint}");
        let version_files = vec![version_file(".terraform-version", constraint)];
        let wish = VersionSources { version_files, ..VersionSources::default() };
        assert_eq!(home.choose(&wish).await.unwrap(), chosen, "{constraint}");
    }
}
