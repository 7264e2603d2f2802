//! Tests of the search on PATH, with scripts and real executables as tools.

use std::os::unix::fs::PermissionsExt;

use super::*;

struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// A script that prints `answer`, and counts how often it is started.
    fn script(&self, name: &str, answer: &str) -> PathBuf {
        let marks = self.marks();
        let script =
            format!("#!/bin/sh\necho GOGC=$GOGC >> '{}'\necho '{answer}'\n", marks.display());
        self.file(name, script.as_bytes(), 0o755)
    }

    fn marks(&self) -> PathBuf {
        self.directory.path().join("marks")
    }

    fn start_count(&self) -> usize {
        std::fs::read_to_string(self.marks()).unwrap_or_default().lines().count()
    }

    fn search<'a>(&self, path: &'a OsStr) -> SearchPath<'a> {
        SearchPath::new(Some(path), self.directory.path().join("cache/path-versions.json"))
    }

    async fn find(&self, directories: &[&str], version: &str) -> Option<PathBuf> {
        let path =
            std::env::join_paths(directories.iter().map(|name| self.directory.path().join(name)));
        let path = path.unwrap();
        let search = self.search(&path);
        let wanted: Version = version.parse().unwrap();
        search
            .find(Product::Terraform, |found| found.version == wanted)
            .await
            .map(|found| found.path)
    }
}

fn stored(identity: Identity) -> StoredVersion {
    let (version, product) = ("1.9.8".parse().unwrap(), "terraform".to_owned());
    StoredVersion { identity, version, product, is_itself: false }
}

#[tokio::test]
async fn version_query_sets_gogc() {
    let bench = Bench::new();
    bench.script("a/terraform", JSON);
    assert!(bench.find(&["a"], "1.9.8").await.is_some());
    assert_eq!(std::fs::read_to_string(bench.marks()).unwrap(), "GOGC=400\n");
}

const JSON: &str = r#"{"terraform_version": "1.9.8", "platform": "linux_amd64"}"#;

#[tokio::test]
async fn version_is_read_from_json_and_from_old_text() {
    let bench = Bench::new();
    let new = bench.script("new/terraform", JSON);
    let old = bench.script("old/terraform", "Terraform v0.12.31\nYour version is out of date!");
    assert_eq!(bench.find(&["new", "old"], "1.9.8").await, Some(new));
    assert_eq!(bench.find(&["new", "old"], "0.12.31").await, Some(old));
    assert_eq!(bench.find(&["new", "old"], "1.9.7").await, None);
}

#[tokio::test]
async fn files_that_cannot_be_a_tool_are_skipped() {
    let bench = Bench::new();
    bench.file("text/terraform", b"#!/bin/sh\necho '{\"terraform_version\": \"1.9.8\"}'", 0o644);
    std::fs::create_dir_all(bench.directory.path().join("directory/terraform")).unwrap();
    bench.file("failing/terraform", format!("#!/bin/sh\necho '{JSON}'\nexit 1").as_bytes(), 0o755);
    bench.file("missing/terraform", b"#!/does/not/exist", 0o755);
    bench.script("odd/terraform", "what?");
    let directories = ["text", "directory", "failing", "missing", "odd", "absent"];
    assert_eq!(bench.find(&directories, "1.9.8").await, None);
    let right = bench.script("right/terraform", JSON);
    let directories = [directories.as_slice(), &["right"]].concat();
    assert_eq!(bench.find(&directories, "1.9.8").await, Some(right));
}

#[tokio::test]
async fn executable_of_another_product_is_skipped_whatever_it_is_called() {
    const TOFU: &str = "OpenTofu v1.9.8\non linux_amd64";
    let bench = Bench::new();
    let tofu = bench.script("tofu/tofu", TOFU);
    bench.script("copy/terraform", TOFU);
    std::fs::create_dir(bench.directory.path().join("link")).unwrap();
    std::os::unix::fs::symlink(tofu, bench.directory.path().join("link/terraform")).unwrap();
    assert_eq!(bench.find(&["copy", "link"], "1.9.8").await, None);
    let right = bench.script("right/terraform", "Terraform v1.9.8");
    assert_eq!(bench.find(&["copy", "link", "right"], "1.9.8").await, Some(right));
}

#[tokio::test]
async fn relative_path_entries_are_skipped() {
    let bench = Bench::new();
    let script = bench.script("bin/terraform", JSON);
    let absolute = script.parent().unwrap();
    // The same directory, relative to the working directory of the tests.
    let up =
        std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect::<PathBuf>();
    let relative = up.join(absolute.strip_prefix("/").unwrap());
    assert!(relative.join("terraform").is_file());
    for (directory, count) in [(absolute, 1), (relative.as_path(), 0), (Path::new(""), 0)] {
        let candidates = bench.search(directory.as_os_str()).candidates(Product::Terraform);
        assert_eq!(candidates.len(), count, "{}", directory.display());
    }
}

#[tokio::test]
async fn script_is_started_for_each_search() {
    let bench = Bench::new();
    bench.script("bin/terraform", JSON);
    for times in 1..=2 {
        bench.find(&["bin"], "1.9.8").await.unwrap();
        assert_eq!(bench.start_count(), times);
    }
}

/// A real executable that does not print a version: only the stored version can be found.
#[tokio::test]
async fn executable_is_not_started_again_while_its_metadata_is_unchanged() {
    let bench = Bench::new();
    let shell = std::fs::read("/bin/sh").unwrap();
    let path = bench.file("bin/terraform", &shell, 0o755);
    let search_path = path.parent().unwrap().as_os_str().to_owned();
    let search = bench.search(&search_path);
    let identity = Identity::from(&std::fs::metadata(&path).unwrap());
    search.store_version(&path, stored(identity));
    assert_eq!(bench.find(&["bin"], "1.9.8").await, Some(path.clone()));

    bench.file("bin/terraform", &shell, 0o755);
    assert_eq!(bench.find(&["bin"], "1.9.8").await, None);
}

#[tokio::test]
async fn stored_versions_that_others_can_write_to_are_ignored() {
    let bench = Bench::new();
    let path = bench.file("bin/terraform", &std::fs::read("/bin/sh").unwrap(), 0o755);
    let search_path = path.parent().unwrap().as_os_str().to_owned();
    let search = bench.search(&search_path);
    let identity = Identity::from(&std::fs::metadata(&path).unwrap());
    search.store_version(&path, stored(identity));
    std::fs::set_permissions(&search.memory, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(bench.find(&["bin"], "1.9.8").await, None);
}

#[tokio::test]
async fn version_is_found_if_it_cannot_be_stored() {
    let bench = Bench::new();
    bench.file("cache", b"a file where the cache should be", 0o600);
    let path = bench.script("bin/terraform", JSON);
    let identity = Identity::from(&std::fs::metadata(&path).unwrap());
    let search = bench.search(OsStr::new(""));
    search.store_version(&path, stored(identity));
    assert_eq!(bench.find(&["bin"], "1.9.8").await, Some(path));
}

#[tokio::test]
async fn terragrunt_is_started_with_its_own_version_flag() {
    let bench = Bench::new();
    let script = "#!/bin/sh\n[ \"$*\" = --version ] && echo 'terragrunt version v0.99.1'\n";
    let path = bench.file("new/terragrunt", script.as_bytes(), 0o755);
    let wanted: Version = "0.99.1".parse().unwrap();
    let search_path = bench.directory.path().join("new").into_os_string();
    let found =
        bench.search(&search_path).find(Product::Terragrunt, |it| it.version == wanted).await;
    assert_eq!(found.map(|found| found.path), Some(path));
}
