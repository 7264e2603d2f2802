//! Restricts this process, and all programs that it starts or becomes, with Landlock.
//!
//! The kernel denies everything that no rule allows: opening, creating and removing files, executing
//! programs, mounting; and what ptrace(2) checks, which is the memory, environment and descriptors of
//! processes outside. That also holds for root. It does not deny the network, named UNIX sockets, nor
//! reading and changing the mode, owner and times of a file. See `docs/isolation.md`.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use super::{AllowedPaths, Landlock};

/// The versions of Landlock whose features are used, the newest first: ioctls on devices, signals and
/// abstract sockets since Linux 6.12 (6), truncation since 6.2 (3), moving files to another directory since
/// 5.19 (2), which is denied before. Later ones would deny named sockets, such as that of an SSH agent.
const VERSIONS: [ABI; 5] = [ABI::V6, ABI::V5, ABI::V3, ABI::V2, ABI::V1];

/// What programs of a distribution need, to read and to execute. Of `/etc`, `/proc`, `/run` and `/sys`
/// only the parts without secrets: as root, all of `/proc` would include the kernel's memory.
const SYSTEM: [&str; 67] = [
    "/bin",
    "/gnu/store",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/opt",
    "/run/current-system",
    "/sbin",
    "/usr",
    // Programs and libraries.
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/ld-musl-aarch64.path",
    "/etc/ld-musl-x86_64.path",
    // Certificates, not the private keys beside them.
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    // Names. Services replace the file to which `resolv.conf` leads, so its directory is needed.
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/networks",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/run/NetworkManager/resolv.conf",
    "/run/resolvconf",
    "/run/systemd/resolve",
    // Languages, time, and what the system is called.
    "/etc/inputrc",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/lsb-release",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/terminfo",
    "/etc/timezone",
    // Clients of git and SSH.
    "/etc/gitconfig",
    "/etc/ssh/ssh_config",
    "/etc/ssh/ssh_config.d",
    "/etc/ssh/ssh_known_hosts",
    // The machine. `self` is the tool; its own children have other directories.
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/self",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
];

/// Devices that each program can read and write. Not the terminal: a program could type into it.
const DEVICES: [&str; 5] = ["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];

/// What Landlock restricts on this machine; none if the kernel does not have it, or if it is disabled.
#[must_use]
pub fn landlock() -> Option<Landlock> {
    version().map(|version| match version {
        version if version >= ABI::V6 => Landlock::FilesAndSignals,
        version if version >= ABI::V3 => Landlock::Files,
        _ => Landlock::FilesButTruncation,
    })
}

/// The newest of [`VERSIONS`] that the kernel has.
fn version() -> Option<ABI> {
    // Nothing is restricted before `restrict_self`.
    VERSIONS.into_iter().find(|version| ruleset(*version).and_then(Ruleset::create).is_ok())
}

/// Denies all that `version` can deny, and fails if the kernel cannot.
fn ruleset(version: ABI) -> Result<Ruleset, RulesetError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset = ruleset.handle_access(AccessFs::from_all(version))?;
    let scope = Scope::from_all(version);
    if scope.is_empty() { Ok(ruleset) } else { ruleset.scope(scope) }
}

/// The paths of the system that each restricted process can read.
#[must_use]
pub const fn readable_paths() -> &'static [&'static str] {
    &SYSTEM
}

/// Restricts this process to `allowed` and to what every program needs of the system, for good: also
/// the program that replaces it, and its children. None of them can gain privileges, by a setuid
/// program for example. All descriptors but 0 to 2 are closed when the process is replaced.
///
/// Must be called while the process has one thread.
///
/// # Errors
/// If the kernel does not have Landlock, or cannot restrict the process. Then the process must end.
pub fn restrict_process(allowed: &AllowedPaths) -> io::Result<()> {
    close_descriptors_on_exec()?;
    let version = version().ok_or(io::ErrorKind::Unsupported)?;
    let status = restrict(allowed, version).map_err(io::Error::other)?;
    // Always the case for a ruleset that is required; the tool must not run if it is not.
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(())
}

fn restrict(allowed: &AllowedPaths, version: ABI) -> Result<RestrictionStatus, RulesetError> {
    let read = AccessFs::from_read(version);
    // A device that root creates would lead to the disk of the machine.
    let write = AccessFs::from_all(version)
        & !(AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev);
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    let system = SYSTEM.iter().map(Path::new);
    ruleset(version)?
        .create()?
        // A path that is not a directory has fewer rights.
        .set_compatibility(CompatLevel::BestEffort)
        .add_rules(path_beneath_rules(system, read))?
        .add_rules(path_beneath_rules(DEVICES, device))?
        .add_rules(path_beneath_rules(&allowed.read, read))?
        .add_rules(path_beneath_rules(&allowed.write, write))?
        .restrict_self()
}

/// Descriptors that this process inherited can lead anywhere, and no rule applies to an open file.
#[expect(unsafe_code, reason = "no library offers this call without it")]
pub(super) fn close_descriptors_on_exec() -> io::Result<()> {
    use nix::libc::{CLOSE_RANGE_CLOEXEC, SYS_close_range, c_uint, syscall};

    // SAFETY: only marks descriptors; none is closed while this program runs.
    let done = unsafe { syscall(SYS_close_range, 3 as c_uint, c_uint::MAX, CLOSE_RANGE_CLOEXEC) };
    nix::errno::Errno::result(done).map(drop).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::{Command, Output};

    use super::*;

    /// The output of `script` in `directory`, in which it can write. Only this thread, and what it starts,
    /// is restricted.
    fn restricted(directory: &Path, version: ABI, script: &str) -> Output {
        std::thread::scope(|scope| {
            let run = || {
                let allowed = AllowedPaths { write: vec![directory.to_owned()], read: terraform() };
                restrict(&allowed, version).unwrap();
                #[expect(clippy::disallowed_methods, reason = "what the restriction is for")]
                let mut command = Command::new("/bin/sh");
                command.args(["-c", script]).current_dir(directory).env("HOME", directory);
                command.env("TMPDIR", directory).output().unwrap()
            };
            scope.spawn(run).join().unwrap()
        })
    }

    /// The versions that restrict files in different ways, and the newest one of this kernel.
    fn versions() -> [ABI; 4] {
        [ABI::V1, ABI::V2, ABI::V3, version().unwrap()]
    }

    /// Programs on PATH that are outside of the directories of the system.
    fn terraform() -> Vec<PathBuf> {
        #[expect(clippy::disallowed_methods, reason = "the programs of this machine")]
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).filter(|path| path.join("terraform").exists()).collect()
    }

    /// A directory with a module that uses another one from git, and a file beside it.
    fn module() -> (tempfile::TempDir, PathBuf) {
        let base = tempfile::tempdir().unwrap();
        let module = base.path().join("module");
        std::fs::create_dir(&module).unwrap();
        std::fs::write(base.path().join("outside"), "precious").unwrap();
        let uses = format!(
            "module \"used\" {{\n  source = \"git::file://{}/used\"\n}}\n",
            module.display()
        );
        std::fs::write(module.join("main.tf"), uses).unwrap();
        std::fs::create_dir(module.join("used")).unwrap();
        let resource = "resource \"terraform_data\" \"one\" {\n  input = \"a\"\n}\n";
        std::fs::write(module.join("used/main.tf"), resource).unwrap();
        (base, module)
    }

    #[test]
    fn git_and_terraform_work_with_each_version_of_landlock() {
        const WORK: &str = "set -e
            git config --global user.email a@example.com && git config --global user.name a
            git init --quiet used && git -C used add --all && git -C used commit --quiet --message a
            terraform init -input=false && terraform plan -input=false -out=plan
            terraform apply plan && terraform plan -input=false -detailed-exitcode
            echo a > a && mkdir b && mv a b/c && cat b/c";
        for version in versions() {
            let (_base, module) = module();
            let done = restricted(&module, version, WORK);
            assert!(done.status.success(), "{version:?}: {done:?}");
        }
    }

    #[test]
    fn files_outside_cannot_be_used_and_before_version_3_only_be_truncated() {
        const ATTACK: &str = "
            cat ../outside && echo read
            echo x > ../outside && echo overwritten
            echo x >> ../outside && echo appended
            mv ../outside moved && echo moved
            perl -e 'truncate(\"../outside\", 0) or exit 1' && echo truncated
            true";
        for version in versions() {
            let (base, module) = module();
            let done = restricted(&module, version, ATTACK);
            let left = std::fs::read_to_string(base.path().join("outside")).unwrap();
            let (done, expected) = (
                String::from_utf8(done.stdout).unwrap(),
                match version {
                    ABI::V1 | ABI::V2 => ("truncated\n", ""),
                    _ => ("", "precious"),
                },
            );
            assert_eq!((done.as_str(), left.as_str()), expected, "{version:?}");
        }
    }

    #[test]
    fn level_is_named_by_what_it_does_not_prevent() {
        assert_eq!(
            Landlock::FilesButTruncation.name(),
            "landlock, without protection against truncation: Linux before 6.2"
        );
        assert_ne!(landlock(), Some(Landlock::FilesButTruncation));
    }
}
