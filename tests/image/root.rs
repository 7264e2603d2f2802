//! A root directory made from Debian packages, and commands that run in it. All mounts are in a
//! namespace that ends with the command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::dockerfile::Image;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The parts of the Rust image, apart from Rust, that the build needs.
const WITH_COMPILER: &str = "ca-certificates,gcc,git,libc6-dev,make,perl";

/// A root directory; removed when dropped, or by the next run.
pub(crate) struct Root {
    directory: TempDir,
    with_rust: bool,
}

impl Root {
    /// Packages of the same Debian release that replace the image of this name.
    pub(crate) fn of(image: &str) -> Self {
        let (image, _) = image.split_once('@').expect("pinned by digest");
        let (with_rust, packages) = match image.split_once(':').expect("a name with a tag") {
            ("debian", tag) if tag.starts_with("bookworm-") && tag.ends_with("-slim") => {
                (false, "")
            }
            ("rust", tag) if tag.ends_with("-bookworm") => (true, WITH_COMPILER),
            _ => panic!("nothing stands for `{image}` here"),
        };
        let directory = tempfile::Builder::new().prefix("root-").tempdir_in(kept()).unwrap();
        let archive = packed(packages);
        succeed(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(directory.path()));
        // Private by default; other users than root could not enter it.
        succeed(Command::new("chmod").arg("0755").arg(directory.path()));
        let root = Self { directory, with_rust };
        // Mount points of a container engine.
        for file in ["etc/resolv.conf", "etc/hosts"] {
            std::fs::write(root.inside(file), "").unwrap();
        }
        if with_rust {
            for directory in ["usr/local/cargo", "usr/local/rustup"] {
                std::fs::create_dir_all(root.inside(directory)).unwrap();
            }
        }
        root
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A path of the root, as seen from outside.
    pub(crate) fn inside(&self, path: &str) -> PathBuf {
        self.path().join(path.trim_start_matches('/'))
    }

    /// The variables that the image has from the start.
    pub(crate) fn variables(&self) -> BTreeMap<String, String> {
        let of_rust: &[_] = if self.with_rust {
            &[("CARGO_HOME", "/usr/local/cargo"), ("RUSTUP_HOME", "/usr/local/rustup")]
        } else {
            &[]
        };
        let bin = if self.with_rust { "/usr/local/cargo/bin:" } else { "" };
        let variables = of_rust.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        variables.chain([("PATH".into(), format!("{bin}{PATH}"))]).collect()
    }

    /// `RUN line`.
    pub(crate) fn build_command(&self, directory: &str, line: &str, context: &Path) -> Command {
        let mut mounts = vec![
            "mount --bind /etc/resolv.conf \"$0/etc/resolv.conf\"".to_owned(),
            "mount --bind /etc/hosts \"$0/etc/hosts\"".to_owned(),
        ];
        if self.with_rust {
            let home = |variable: &str, name: &str| {
                #[expect(clippy::disallowed_methods, reason = "where this machine has its Rust")]
                let named = std::env::var_os(variable);
                named.map_or_else(|| PathBuf::from("/root").join(name), PathBuf::from)
            };
            let (cargo, rustup) = (home("CARGO_HOME", ".cargo"), home("RUSTUP_HOME", ".rustup"));
            let target = context.join("target");
            for (from, to) in [
                (cargo, "usr/local/cargo"),
                (rustup, "usr/local/rustup"),
                // Reuses earlier builds; the first build takes some minutes.
                (target, "source/target"),
            ] {
                let from = from.display();
                mounts.push(format!("mkdir -p \"$0/{to}\"; mount --bind '{from}' \"$0/{to}\""));
            }
        }
        let mut command = self.command(&mounts.join("\n"), "");
        command.args(["/bin/sh", "-c", "cd \"$0\" && exec /bin/sh -c \"$1\"", directory, line]);
        command
    }

    /// A command of `user` in a container whose root is read-only except for /tmp.
    pub(crate) fn read_only(&self, image: &Image, user: u32) -> Command {
        let mounts =
            "mount -o bind,ro,remount \"$0\"\nmount -t tmpfs -o mode=1777 tmpfs \"$0/tmp\"";
        let mut command = self.command(mounts, &format!("--userspec={user}:{user}"));
        command.envs(&image.variables);
        let directory = &image.directory;
        command.args(["/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", directory]);
        command
    }

    /// The command of `docker run --read-only --user USER IMAGE WORDS`.
    pub(crate) fn container(&self, image: &Image, user: u32, words: &[&str]) -> Command {
        let mut command = self.read_only(image, user);
        command.args(&image.entrypoint).args(words);
        command
    }

    /// The output of a command of `user`, without the entry point.
    pub(crate) fn output(&self, image: &Image, user: u32, words: &[&str]) -> String {
        let output = self.read_only(image, user).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A command in this root and in its own namespace, in which `mounts` are mounted first.
    fn command(&self, mounts: &str, options: &str) -> Command {
        let script = format!(
            "mount --bind \"$0\" \"$0\"\n\
             mount -t proc proc \"$0/proc\"\n\
             mount --rbind /dev \"$0/dev\"\n\
             {mounts}\n\
             exec chroot {options} \"$0\" \"$@\""
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "/bin/sh", "-e", "-c", &script]).arg(self.path());
        command.env_clear().env("PATH", PATH);
        command
    }
}

/// `COPY . to`: all files except those that .dockerignore names.
pub(crate) fn copy_build_context(context: &Path, to: &Path) {
    let ignored = std::fs::read_to_string(context.join(".dockerignore")).unwrap();
    let ignored = ignored.lines().map(|name| format!("--exclude=./{name}"));
    let mut pack = Command::new("tar");
    pack.arg("-C").arg(context).args(ignored).args(["-cf", "-", "."]);
    let mut packing = pack.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut unpack = Command::new("tar");
    unpack.args(["--no-same-owner", "-xf", "-", "-C"]).arg(to);
    succeed(unpack.stdin(packing.stdout.take().unwrap()));
    assert!(packing.wait().unwrap().success());
}

/// The directory of the roots. Downloaded packages are kept there for the next run.
fn kept() -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/image");
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Removes the roots of earlier runs. Statics are not dropped when a process ends.
pub(crate) fn clear() {
    for entry in std::fs::read_dir(kept()).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("root-")) {
            std::fs::remove_dir_all(path).unwrap();
        }
    }
}

/// An archive of Debian's essential packages and of these packages.
fn packed(packages: &str) -> PathBuf {
    let name = if packages.is_empty() { "slim" } else { "compiler" };
    let archive = kept().join(format!("{name}.tar"));
    if !archive.exists() {
        let new = archive.with_extension("new.tar");
        let mut make = Command::new("mmdebstrap");
        make.args(["--variant=minbase", "--mode=root", "--quiet"]);
        // The image leaves these out, too.
        make.args([
            "--dpkgopt=path-exclude=/usr/share/man/*",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
        ]);
        if !packages.is_empty() {
            make.arg(format!("--include={packages}"));
        }
        make.arg("bookworm").arg(&new);
        for (suite, place) in [
            ("bookworm", "debian"),
            ("bookworm-updates", "debian"),
            ("bookworm-security", "debian-security"),
        ] {
            make.arg(format!("deb http://deb.debian.org/{place} {suite} main"));
        }
        succeed(&mut make);
        std::fs::rename(new, &archive).unwrap();
    }
    archive
}

fn succeed(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{status}: {command:?}");
}
