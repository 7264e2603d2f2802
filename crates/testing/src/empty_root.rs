//! A root directory with only the static binary and the files that TLS and DNS need.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// An empty root directory; removed when dropped.
pub struct EmptyRoot {
    root: TempDir,
}

impl EmptyRoot {
    /// A root with `binary` at `/butler-runner`, and the host's CA file and `/etc/resolv.conf`. It
    /// does not have `/tmp`.
    pub fn new(binary: &Path) -> Self {
        let root = Self { root: tempfile::tempdir().unwrap() };
        root.file("butler-runner", &std::fs::read(binary).unwrap());
        let executable = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(root.path().join("butler-runner"), executable).unwrap();
        for file in ["etc/ssl/certs/ca-certificates.crt", "etc/resolv.conf"] {
            root.file(file, &std::fs::read(Path::new("/").join(file)).unwrap_or_default());
        }
        root
    }

    /// The directory, as seen from outside.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Adds a file; `path` is relative to the root.
    pub fn file(&self, path: &str, content: &[u8]) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// The binary in this root, with an empty environment. Only root can change the root directory,
    /// so an ordinary user becomes root in a user namespace.
    pub fn runner(&self) -> Command {
        let mut command = if nix::unistd::Uid::effective().is_root() {
            Command::new("chroot")
        } else {
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user", "chroot"]);
            command
        };
        command.arg(self.path()).arg("/butler-runner").env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }
}
