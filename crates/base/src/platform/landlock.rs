//! Restricts this process, and all programs that it starts or becomes, with Landlock.
//!
//! The kernel denies everything that no rule allows: opening, creating and removing files, executing
//! programs, mounting; and what ptrace(2) checks, which is the memory, environment and descriptors of
//! processes outside. That also holds for root. It does not deny the network, named UNIX sockets, nor
//! reading and changing the mode, owner and times of a file. See `docs/isolation.md`.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use super::{AllowedPaths, Landlock};

/// The least that a restriction must contain (Linux 6.2). Before, any file that the user can write
/// could be truncated, and before Linux 5.19 no file could be moved to another directory.
const MINIMUM: ABI = ABI::V3;

/// The newest features that are used if the kernel has them (Linux 6.12): ioctls on devices, signals,
/// abstract sockets. Later ones would deny named sockets, such as that of an SSH agent.
const NEWEST: ABI = ABI::V6;

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

/// What Landlock restricts on this machine; none if the kernel does not have it, if it is disabled, or
/// if it lacks a part that the isolation of a run needs.
#[must_use]
pub fn landlock() -> Option<Landlock> {
    // Nothing is restricted before `restrict_self`.
    let exists = |ruleset: Ruleset, scope: BitFlags<Scope>| {
        let ruleset = ruleset.set_compatibility(CompatLevel::HardRequirement);
        let ruleset = ruleset.handle_access(AccessFs::from_all(MINIMUM))?;
        if scope.is_empty() { ruleset } else { ruleset.scope(scope)? }.create().map(drop)
    };
    if exists(Ruleset::default(), Scope::from_all(NEWEST)).is_ok() {
        return Some(Landlock::FilesAndSignals);
    }
    exists(Ruleset::default(), BitFlags::EMPTY).ok().map(|()| Landlock::Files)
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
    let status = restrict(allowed).map_err(io::Error::other)?;
    // Always the case for a ruleset whose minimum is required; the tool must not run if it is not.
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(())
}

fn restrict(allowed: &AllowedPaths) -> Result<landlock::RestrictionStatus, RulesetError> {
    let read = AccessFs::from_read(NEWEST);
    // A device that root creates would lead to the disk of the machine.
    let write = AccessFs::from_all(NEWEST)
        & !(AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev);
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    let system = SYSTEM.iter().map(Path::new);
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(MINIMUM))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(system, read))?
        .add_rules(path_beneath_rules(DEVICES, device))?
        .add_rules(path_beneath_rules(&allowed.read, read))?
        .add_rules(path_beneath_rules(&allowed.write, write))?
        .restrict_self()
}

/// Descriptors that this process inherited can lead anywhere, and no rule applies to an open file.
#[expect(unsafe_code, reason = "no library offers this call without it")]
fn close_descriptors_on_exec() -> io::Result<()> {
    use nix::libc::{CLOSE_RANGE_CLOEXEC, SYS_close_range, c_uint, syscall};

    // SAFETY: only marks descriptors; none is closed while this program runs.
    let done = unsafe { syscall(SYS_close_range, 3 as c_uint, c_uint::MAX, CLOSE_RANGE_CLOEXEC) };
    nix::errno::Errno::result(done).map(drop).map_err(io::Error::from)
}
